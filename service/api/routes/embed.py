"""POST /embed: texts in, unit vectors out; POST /, the same or /similarity, as the body asks.

POST / is what clients of text-embeddings-inference (TEI) call when they are given only a base URL. In TEI it is POST
/embed, or POST /similarity if TASK=sentence-similarity is set (router/src/http/server.rs). Differs: the body decides,
so both tasks of huggingface_hub's InferenceClient work without a setting.
"""

from fastapi import APIRouter, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import EmbedderDependency, cost_headers
from service.api.responses import json_response
from service.api.routes.openapi import inference
from service.api.routes.similarity import similarity
from service.api.schemas.embed import EmbedRequest, RootRequest, SimilarityRequest

router = APIRouter(tags=["embeddings"], route_class=JsonRoute)


@router.post(
    "/embed", response_model=list[list[float]], responses=inference(example=[[0.1, -0.2]]), summary="Embed texts"
)
@Policy(Access.READ, Reach.NOTHING)
async def embed(body: EmbedRequest, embedder: EmbedderDependency) -> Response:
    """Turn each text into a vector of norm 1. A vector never depends on the other texts in the request."""
    batch = await embedder.embed(body.inputs, body, name="inputs")
    return json_response(batch.embeddings, headers=cost_headers(batch))


@router.post(
    "/",
    response_model=list[list[float]] | list[float],
    responses=inference(example=[[0.1, -0.2]]),
    summary="Embed or compare texts",
)
@Policy(Access.READ, Reach.NOTHING)
async def embed_or_compare(body: RootRequest, embedder: EmbedderDependency) -> Response:
    """Like /embed for a text or a list of texts, like /similarity for an object. For clients with only a base URL."""
    if isinstance(body, SimilarityRequest):
        return await similarity(body, embedder)
    return await embed(body, embedder)
