"""POST /embed: texts in, unit vectors out."""

from fastapi import APIRouter, Response

from service.api.dependencies import EmbedderDependency, cost_headers, one_or_listed, shown_vectors
from service.api.json_route import JsonRoute
from service.api.policy import Access, access
from service.api.responses import array_response
from service.api.routes.openapi import inference
from service.api.schemas.embed import EmbedRequest

router = APIRouter(tags=["embeddings"], route_class=JsonRoute)


@router.post(
    "/embed", response_model=list[list[float]], responses=inference(example=[[0.1, -0.2]]), summary="Embed texts"
)
@access(Access.READ)
async def embed(body: EmbedRequest, embedder: EmbedderDependency) -> Response:
    """Turn each text into a vector of norm 1. A vector never depends on the other texts in the request."""
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    place = one_or_listed("inputs", body.inputs)
    prompt = embedder.prompts.chosen(body.prompt_name, body.input_type)
    batch = await embedder.embed(
        texts,
        name="inputs",
        prompt=prompt,
        place=place,
        truncate=body.may_cut,
        dimensions=body.dimensions,
        space=embedder.spaces.chosen(body.space),
    )
    return array_response(shown_vectors(batch.embeddings, body), cost_headers(batch))
