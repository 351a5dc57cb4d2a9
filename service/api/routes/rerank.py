"""POST /rerank, /v1/rerank, /v2/rerank: orders passages by how well they answer a query.

Under /reranker is the same for clients of text-embeddings-inference (TEI) that ask /info whether a server re-ranks:
TEI has one model a server.
"""

from typing import Any

from fastapi import APIRouter, Request, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.ranking import check_cut, rank
from service.api.request import EmbedderDependency, RuntimeDependency
from service.api.responses import json_response
from service.api.routes.health import tei_facts
from service.api.routes.openapi import answers, inference
from service.api.schemas.cohere import CohereErrorResponse
from service.api.schemas.rerank import RankedText, RankingInfo, RerankDocuments, RerankRequest, RerankResponse

router = APIRouter(tags=["re-ranking"], route_class=JsonRoute)


AS_TEI: dict[str, Any] = {
    "response_model": list[RankedText] | RerankResponse,
    "responses": inference(example=[{"index": 1, "score": 0.83}], scores=True),
    "summary": "Put texts in order",
}


@router.post("/rerank", **AS_TEI)
@router.post("/reranker/rerank", **AS_TEI)
@Policy(Access.READ, Reach.NOTHING)
async def rerank(body: RerankRequest, request: Request, embedder: EmbedderDependency) -> Response:
    """With `texts` as text-embeddings-inference answers, with `documents` as Cohere and Jina do; best first."""
    if isinstance(body, RerankDocuments):
        return await rerank_documents(body, request, embedder)
    ranking = await rank(embedder, body.query, body.texts, name="texts", **body.reading)
    scores: list[float] = (ranking.raw_N if body.raw_scores else ranking.scores_N).tolist()
    content = [
        {"index": index, "score": scores[index]}
        | ranking.own_score(index)
        | ({"text": body.texts[index]} if body.return_text else {})
        for index in ranking.order[: body.top_n]
    ]
    return json_response(content, headers=ranking.headers)


@router.get(
    "/reranker/info", response_model=RankingInfo, responses=answers(401), summary="Describe what puts texts in order"
)
@Policy(Access.READ, Reach.NOTHING)
async def ranking_info(runtime: RuntimeDependency) -> Response:
    """What a server of text-embeddings-inference with a re-ranker says of itself."""
    manifest = runtime.manifest if runtime.reranker is None else runtime.reranker.manifest
    content = {
        "model_id": runtime.scoring.name,
        "model_type": {"reranker": {"id2label": {}, "label2id": {}}},
        "auto_truncate": True,
    }
    return json_response(tei_facts(runtime, manifest) | content)


AS_COHERE: dict[str, Any] = {
    "response_model": RerankResponse,
    "responses": inference(error=CohereErrorResponse, scores=True),
    "summary": "Put documents in order",
}


@router.post("/v1/rerank", **AS_COHERE)
@router.post("/v2/rerank", **AS_COHERE)
@Policy(Access.READ, Reach.NOTHING)
async def rerank_documents(body: RerankDocuments, request: Request, embedder: EmbedderDependency) -> Response:
    """Drop-in for clients of Cohere and Jina: change the base URL."""
    if body.max_tokens_per_doc:
        check_cut(embedder.runtime, body.max_tokens_per_doc, windows=bool(body.windows))
    ranking = await rank(embedder, body.query, body.documents, name="documents", **body.reading)
    scores: list[float] = ranking.scores_N.tolist()
    tokens = ranking.batch.tokens
    # For clients that see no headers.
    cut = ["query was cut"] * ranking.is_query_cut
    cut += [f"documents[{position}] was cut" for position in ranking.batch.truncated]
    content = {
        "id": request.state.facts.request_id,
        "model": ranking.ranked_by,
        "results": [
            {"index": index, "relevance_score": scores[index]}
            | ranking.own_score(index)
            | ({"document": {"text": body.documents[index]}} if body.return_documents else {})
            for index in ranking.order[: body.top_n]
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "meta": {"tokens": {"input_tokens": tokens}} | ({"warnings": cut} if cut else {}),
    }
    return json_response(content, headers=ranking.headers)
