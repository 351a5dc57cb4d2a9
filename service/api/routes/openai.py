"""POST /v1/embeddings, /embeddings and GET /v1/models: what OpenAI's clients ask, in OpenAI's shapes."""

import base64
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Path, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import Embedder, EmbedderDependency, Place, RuntimeDependency, cost_headers, one_or_listed
from service.api.responses import dump_in_turns, dump_json, dumped_response, json_response
from service.api.routes.openapi import answers, inference
from service.api.schemas.openai import (
    OpenAIEmbeddingsRequest,
    OpenAIEmbeddingsResponse,
    OpenAIErrorResponse,
    OpenAIModel,
    OpenAIModels,
)
from service.errors import InvalidInput, NotFound, ServiceError, TooLarge
from service.model.artifact import Manifest
from service.model.encoder import TextInput
from service.model.openai_ids import openai_vocabulary
from service.runtime import Steps

SEND_TEXT = "make the client send text (LangChain's OpenAIEmbeddings: check_embedding_ctx_length=False), or"
IDS_REFUSED = (
    f"input has token ids, and another tokenizer's ids give wrong vectors: {SEND_TEXT} say whose ids they are "
    "(CROSSLET_TOKEN_IDS=cl100k_base for OpenAI's, own for this model's)"
)
VOCABULARY_MISSING = (
    f"input has token ids, and no installed package has OpenAI's vocabulary, cl100k_base: {SEND_TEXT} install "
    "crosslet[openai-ids] with the service (for this model's own ids: CROSSLET_TOKEN_IDS=own)"
)

ModelInPath = Annotated[str, Path(description="The model's name; it may hold slashes.", examples=["default"])]

router = APIRouter(tags=["embeddings"], route_class=JsonRoute)


AS_OPENAI: dict[str, Any] = {
    "response_model": OpenAIEmbeddingsResponse,
    "responses": inference(error=OpenAIErrorResponse),
    "summary": "Embed texts, as OpenAI does",
}


@router.post("/embeddings", **AS_OPENAI)  # for clients whose base URL lacks /v1
@router.post("/v1/embeddings", **AS_OPENAI)
@Policy(Access.READ, Reach.NOTHING)
async def create_embeddings(
    body: OpenAIEmbeddingsRequest, embedder: EmbedderDependency, runtime: RuntimeDependency
) -> Response:
    """Drop-in for OpenAI clients: change the base URL. Long texts are truncated; `x-truncated` counts them."""
    given: TextInput | Sequence[TextInput] = body.input
    inputs, place = one_or_listed("input", given)
    ids_are = runtime.settings.token_ids
    if ids_are != "own" and any(isinstance(text, tuple) for text in inputs):
        if ids_are == "off":
            raise InvalidInput(IDS_REFUSED)
        inputs = await _texts_of_ids(inputs, embedder, place)
    batch = await embedder.embed(inputs, body, name="input", place=place, limit="max_openai_texts")
    usage = {"prompt_tokens": batch.tokens, "total_tokens": batch.tokens}
    rest = dump_json({"model": runtime.manifest.name, "usage": usage})
    data = await dump_in_turns(batch.embeddings, _base64_entries if body.encoding_format == "base64" else _entries)
    content = b"".join([b'{"object":"list","data":[', *data, b"],", rest[1:]])
    return dumped_response(content, headers=cost_headers(batch))


async def _texts_of_ids(inputs: Sequence[TextInput], embedder: Embedder, place: Place) -> list[str]:
    """Return the texts of OpenAI's token ids.

    Raises: InvalidInput: no package has the vocabulary; there are too many; they are no text.
            TextTooLong: one is over the limit.  TooLarge: their text is.
    """
    settings = embedder.runtime.settings
    vocabulary = await embedder.runtime.preparation.call(openai_vocabulary)
    if vocabulary is None:
        raise InvalidInput(VOCABULARY_MISSING)
    embedder.check(inputs, name="input", place=place, limit="max_openai_texts")

    def texts() -> Steps[list[str]]:
        decoded: list[str] = []
        size_bytes = 0
        for position, ids in enumerate(inputs):
            assert isinstance(ids, tuple)  # noqa: S101 - the schema has no list of both
            try:
                size_bytes += vocabulary.size_of(ids)
                if size_bytes > settings.max_body_bytes:
                    raise TooLarge(
                        f"and those before it stand for {size_bytes} bytes of text; the limit is "
                        f"{settings.max_body_bytes} (CROSSLET_MAX_BODY_BYTES)"
                    )
                decoded.append(vocabulary.text(ids))
            except ServiceError as exc:
                raise exc.at(place(position)) from exc
            yield
        return decoded

    return await embedder.prepare(texts(), what="decoding token ids", way_out="send fewer of them, or text")


def _entries(start: int, vectors: Iterable[object]) -> list[dict[str, object]]:
    numbered = enumerate(vectors, start=start)
    return [{"object": "embedding", "index": index, "embedding": vector} for index, vector in numbered]


def _base64_entries(start: int, vectors_BD: npt.NDArray[np.float32]) -> list[dict[str, object]]:
    return _entries(start, [base64.b64encode(vector_D.data).decode() for vector_D in vectors_BD.astype("<f4")])


@router.get(
    "/v1/models",
    response_model=OpenAIModels,
    responses=answers(401, error=OpenAIErrorResponse),
    summary="List the model, as OpenAI does",
)
@Policy(Access.READ, Reach.NOTHING)
async def list_models(runtime: RuntimeDependency) -> Response:
    """The served model, also by a name with "embed": menus list no other. `/v1/embeddings` accepts any name."""
    manifest = runtime.manifest
    return json_response({"object": "list", "data": [_described(manifest, name) for name in _names_of(manifest)]})


@router.get(
    "/v1/models/{model:path}",
    response_model=OpenAIModel,
    responses=answers(401, 404, error=OpenAIErrorResponse),
    summary="Describe the model, as OpenAI does",
)
@Policy(Access.READ, Reach.NOTHING)
async def get_model(model: ModelInPath, runtime: RuntimeDependency) -> Response:
    """The model, by its name in the list."""
    name, names = model.removesuffix("/"), _names_of(runtime.manifest)
    if name not in names:
        raise NotFound(f"no such model; this service serves {names[0]}")
    return json_response(_described(runtime.manifest, name))


def _names_of(manifest: Manifest) -> list[str]:
    """Return the model's name and, if it lacks the word, one with "embed": n8n lists only such models."""
    return [manifest.name] if "embed" in manifest.name else [manifest.name, f"{manifest.name}-embed"]


def _described(manifest: Manifest, name: str) -> dict[str, object]:
    created = datetime.fromtimestamp(0, UTC)
    with suppress(ValueError):  # the manifest may lack the date
        created = datetime.fromisoformat(manifest.created_at)
    aware = created if created.tzinfo else created.replace(tzinfo=UTC)
    return {"id": name, "object": "model", "created": int(aware.timestamp()), "owned_by": "crosslet"}
