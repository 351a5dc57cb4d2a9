"""POST /v2/embed and /v1/embed: what Cohere's clients ask, in Cohere's shapes.

B texts, D dims
"""

import base64
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Request, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import Embedder, EmbedderDependency, cost_headers
from service.api.responses import json_response
from service.api.routes.openapi import inference
from service.api.schemas.cohere import CohereEmbedRequest, CohereEmbedResponse, CohereErrorResponse, EmbeddingType
from service.engine.fair_queue import EncodedBatch
from service.errors import InvalidInput

TASKS = {"classification", "clustering"}  # values of `input_type` that mean no prompt, unless the model has one
CLIP_AT = 6.0  # of int8, in standard deviations of a component of a random unit vector

router = APIRouter(tags=["embeddings"], route_class=JsonRoute)

AS_COHERE: dict[str, Any] = {"response_model": CohereEmbedResponse, "responses": inference(error=CohereErrorResponse)}


@router.post("/v2/embed", summary="Embed texts, as Cohere does", **AS_COHERE)
@Policy(Access.READ, Reach.NOTHING)
async def cohere_embed(body: CohereEmbedRequest, request: Request, embedder: EmbedderDependency) -> Response:
    """Drop-in for Cohere's clients: change the base URL."""
    batch = await _embed(body, embedder)
    return _answer(by_type(batch.embeddings, body.embedding_types or ["float"]), body, request, batch)


@router.post("/v1/embed", summary="Embed texts, as Cohere's first version does", **AS_COHERE)
@Policy(Access.READ, Reach.NOTHING)
async def cohere_embed_v1(body: CohereEmbedRequest, request: Request, embedder: EmbedderDependency) -> Response:
    """The same; without `embedding_types`, `embeddings` is a list of vectors."""
    batch = await _embed(body, embedder)
    types = body.embedding_types
    return _answer(by_type(batch.embeddings, types) if types else batch.embeddings, body, request, batch)


async def _embed(body: CohereEmbedRequest, embedder: Embedder) -> EncodedBatch:
    if body.input_type == "image":
        raise InvalidInput("input_type is image, but the model reads text alone: send search_document")
    if body.input_type in TASKS - embedder.runtime.encoder.prompts.texts.keys():
        body = body.model_copy(update={"input_type": None})
    return await embedder.embed(body.texts, body, name="texts")


def by_type(vectors_BD: npt.NDArray[np.float32], types: list[EmbeddingType]) -> dict[str, object]:
    """Return unit vectors in some of Cohere's forms.

    int8 has one scale for every text, so that dot products order as cosines do. Its largest value is a component of
    six standard deviations of a random unit vector's; what is larger is clipped.
    """
    dim = vectors_BD.shape[1]
    int8_BD = np.clip(np.rint(vectors_BD * (127 * math.sqrt(dim) / CLIP_AT)), -127, 127).astype(np.int16)
    signs_BD = np.packbits(vectors_BD > 0, axis=1)  # zeros fill the last byte
    forms: dict[EmbeddingType, object] = {
        "float": vectors_BD,
        "int8": int8_BD.astype(np.int8),
        "uint8": (int8_BD + 128).astype(np.uint8),
        "binary": (signs_BD.astype(np.int16) - 128).astype(np.int8),
        "ubinary": signs_BD,
        "base64": [base64.b64encode(vector_D.tobytes()).decode() for vector_D in vectors_BD.astype("<f4")],
    }
    return {name: forms[name] for name in types}


def _answer(embeddings: object, body: CohereEmbedRequest, request: Request, batch: EncodedBatch) -> Response:
    cut = [f"texts[{position}] was cut" for position in batch.truncated]
    tokens = {"input_tokens": batch.tokens}
    content = {
        "id": request.state.facts.request_id,
        "response_type": "embeddings_by_type" if isinstance(embeddings, dict) else "embeddings_floats",
        "embeddings": embeddings,
        "texts": body.texts,
        "meta": {"tokens": tokens, "billed_units": tokens} | ({"warnings": cut} if cut else {}),
    }
    return json_response(content, headers=cost_headers(batch))
