"""POST /: what clients of text-embeddings-inference (TEI) call when they are given only a base URL.

In TEI, POST / is POST /embed, or POST /similarity if TASK=sentence-similarity is set (router/src/http/server.rs).
Differs: the body decides, so both tasks of huggingface_hub's InferenceClient work without a setting.
"""

from fastapi import APIRouter, Response

from service.api.dependencies import EmbedderDependency
from service.api.json_route import JsonRoute
from service.api.policy import Access, access
from service.api.routes.embed import embed
from service.api.routes.openapi import inference
from service.api.routes.similarity import similarity
from service.api.schemas.embed import RootRequest, SimilarityRequest

router = APIRouter(tags=["embeddings"], route_class=JsonRoute)


@router.post(
    "/",
    response_model=list[list[float]] | list[float],
    responses=inference(example=[[0.1, -0.2]]),
    summary="Embed or compare texts",
)
@access(Access.READ)
async def embed_or_compare(body: RootRequest, embedder: EmbedderDependency) -> Response:
    """Like /embed for a text or a list of texts, like /similarity for an object. For clients with only a base URL."""
    if isinstance(body, SimilarityRequest):
        return await similarity(body, embedder)
    return await embed(body, embedder)
