"""POST /: what clients of text-embeddings-inference call when they know a base URL alone. Knows which route is meant.

There, POST / is POST /embed, or POST /similarity where TASK=sentence-similarity is set (its router/src/http/server.rs).
Differs: no setting; what is sent says which one is meant, so both tasks of huggingface_hub's InferenceClient work.
"""

from fastapi import APIRouter, Response

from service.http.dependencies import EmbedderDependency
from service.http.json_route import JsonRoute
from service.http.routes.embed import embed
from service.http.routes.openapi import inference
from service.http.routes.similarity import similarity
from service.schemas.embed import RootRequest, SimilarityRequest

router = APIRouter(tags=["embeddings"], route_class=JsonRoute)


@router.post(
    "/",
    response_model=list[list[float]] | list[float],
    responses=inference(example=[[0.1, -0.2]]),
    summary="Embed or compare texts",
)
async def embed_or_compare(body: RootRequest, embedder: EmbedderDependency) -> Response:
    """As /embed for a text or a list of texts, as /similarity for an object: for clients with only a base URL."""
    if isinstance(body, SimilarityRequest):
        return await similarity(body, embedder)
    return await embed(body, embedder)
