"""GET /v1/models: the served model, in OpenAI's shape."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Response

from service.api.dependencies import RuntimeDependency
from service.api.json_route import JsonRoute
from service.api.policy import Access, access
from service.api.responses import json_response
from service.api.routes.openapi import answers
from service.api.schemas.openai import OpenAIErrorResponse, OpenAIModel, OpenAIModels
from service.errors import NotFound
from service.model.artifact import Manifest

router = APIRouter(prefix="/v1/models", tags=["embeddings"], route_class=JsonRoute)

ModelInPath = Annotated[str, Path(description="The model's name; it may hold slashes.", examples=["default"])]


@router.get(
    "",
    response_model=OpenAIModels,
    responses=answers(401, error=OpenAIErrorResponse),
    summary="List the model, as OpenAI does",
)
@access(Access.READ)
async def list_models(runtime: RuntimeDependency) -> Response:
    """The served model. `/v1/embeddings` accepts any model name."""
    return json_response({"object": "list", "data": [_shown(runtime.manifest)]})


@router.get(
    "/{model:path}",
    response_model=OpenAIModel,
    responses=answers(401, 404, error=OpenAIErrorResponse),
    summary="Describe the model, as OpenAI does",
)
@access(Access.READ)
async def get_model(model: ModelInPath, runtime: RuntimeDependency) -> Response:
    """The model, by its name in the list."""
    name = runtime.manifest.name
    if model.removesuffix("/") != name:
        raise NotFound(f"no such model; this service serves {name}")
    return json_response(_shown(runtime.manifest))


def _shown(manifest: Manifest) -> dict[str, object]:
    created = datetime.fromtimestamp(0, UTC)
    with suppress(ValueError):  # the manifest may lack the date
        created = datetime.fromisoformat(manifest.created_at)
    aware = created if created.tzinfo else created.replace(tzinfo=UTC)
    return {"id": manifest.name, "object": "model", "created": int(aware.timestamp()), "owned_by": "crosslet"}
