"""Turns what a search asks by into queries: texts, a vector, or a document's id. Searches nothing.

D dims
"""

from collections.abc import Sequence

import numpy as np

from service.api.embedder import Embedder, one_or_listed
from service.api.schemas.search import SearchRequest
from service.documents.protocol import Vectors
from service.documents.query import Query
from service.engine.fair_queue import EncodedBatch
from service.errors import InvalidInput, NotFound
from service.runtime import Runtime


async def queries_of(
    body: SearchRequest, embedder: Embedder, runtime: Runtime
) -> tuple[list[Query], EncodedBatch | None]:
    """The queries, and what it took to embed them; None: nothing was embedded.

    Raises: InvalidInput: the vector has another dim than the documents', or no direction.
            NotFound: no document has the id of `like`.  What `Embedder.embed` does.
    """
    if body.vector is not None:
        return [Query(_of_norm_1(body.vector, dim=_dim(embedder, runtime)))], None
    if body.like is not None:
        vector_D = await runtime.read(runtime.collection.vector, body.like)
        if vector_D is None:
            raise NotFound("no document has the id that like names")
        return [Query(vector_D, without=body.like)], None
    return await _embedded(body, embedder, runtime)


async def _embedded(
    body: SearchRequest, embedder: Embedder, runtime: Runtime
) -> tuple[list[Query], EncodedBatch | None]:
    texts, name = ([body.query], "query") if body.query is not None else (body.queries or [], "queries")
    place, prompts = one_or_listed(name, body.query), embedder.prompts
    prompt = prompts.chosen(body.prompt_name, body.input_type, otherwise=prompts.query)
    mode = body.mode or runtime.settings.default_mode
    if mode == "keywords":
        embedder.check(texts, name=name, place=place)
        return [Query(words=text) for text in texts], None
    batch = await embedder.embed(texts, name=name, prompt=prompt, place=place, space=embedder.document_space)
    vectors = zip(texts, batch.embeddings, strict=True)
    return [Query(vector_D, text if mode == "hybrid" else None) for text, vector_D in vectors], batch


def _dim(embedder: Embedder, runtime: Runtime) -> int:
    return runtime.manifest.dim if embedder.document_space is None else embedder.document_space.dim


def _of_norm_1(numbers: Sequence[float], *, dim: int) -> Vectors:
    if len(numbers) != dim:
        raise InvalidInput(f"vector has {len(numbers)} numbers; those of the documents have {dim} (`dim` in GET /info)")
    given_D = np.asarray(numbers, np.float64)
    largest = np.abs(given_D).max()
    if not largest or not np.isfinite(largest):
        raise InvalidInput("vector has only zeros, or a number beyond 64-bit floats; it needs a direction")
    scaled_D = given_D / largest  # no square overflows
    unit_D: Vectors = (scaled_D / np.linalg.norm(scaled_D)).astype(np.float32)
    return unit_D
