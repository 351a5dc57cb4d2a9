"""POST /rerank, /v1/rerank, /v2/rerank: orders passages by how well they answer a query."""

from fastapi import APIRouter, Request, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, policy
from service.api.ranking import RankerDependency, Ranking
from service.api.responses import json_response
from service.api.routes.openapi import inference
from service.api.schemas.rerank import RankedText, RerankDocuments, RerankRequest, RerankResponse, RerankTexts

router = APIRouter(tags=["re-ranking"], route_class=JsonRoute)


@router.post(
    "/rerank",
    response_model=list[RankedText] | RerankResponse,
    responses=inference(example=[{"index": 1, "score": 0.83}], scores=True),
    summary="Put texts in order",
)
@policy(Access.READ, fast=True)
async def rerank(body: RerankRequest, request: Request, ranker: RankerDependency) -> Response:
    """With `texts` as text-embeddings-inference answers, with `documents` as Cohere and Jina do; best first."""
    if isinstance(body, RerankDocuments):
        return await rerank_documents(body, request, ranker)
    ranking = await ranker.rank(body.query, body.texts, name="texts", **body.reading)
    return json_response(_as_tei(body, ranking), headers=ranking.headers)


@router.post(
    "/v1/rerank", response_model=RerankResponse, responses=inference(scores=True), summary="Put documents in order"
)
@router.post(
    "/v2/rerank", response_model=RerankResponse, responses=inference(scores=True), summary="Put documents in order"
)
@policy(Access.READ, fast=True)
async def rerank_documents(body: RerankDocuments, request: Request, ranker: RankerDependency) -> Response:
    """Drop-in for clients of Cohere and Jina: change the base URL."""
    if body.max_tokens_per_doc:
        ranker.check_cut(body.max_tokens_per_doc, windows=bool(body.windows))
    ranking = await ranker.rank(body.query, body.documents, name="documents", **body.reading)
    content = {
        "id": request.state.facts.request_id,
        "model": ranking.ranked_by,
        "results": _results(body, ranking),
        "usage": {"prompt_tokens": ranking.batch.tokens, "total_tokens": ranking.batch.tokens},
        "meta": {"tokens": {"input_tokens": ranking.batch.tokens}} | _warnings(ranking),
    }
    return json_response(content, headers=ranking.headers)


def _as_tei(body: RerankTexts, ranking: Ranking) -> list[dict[str, object]]:
    scores: list[float] = (ranking.raw_N if body.raw_scores else ranking.scores_N).tolist()
    return [
        {"index": index, "score": scores[index]} | ({"text": body.texts[index]} if body.return_text else {})
        for index in ranking.order
    ]


def _results(body: RerankDocuments, ranking: Ranking) -> list[dict[str, object]]:
    scores: list[float] = ranking.scores_N.tolist()
    return [
        {"index": index, "relevance_score": scores[index]}
        | ({"document": {"text": body.documents[index]}} if body.return_documents else {})
        for index in ranking.order[: body.top_n]
    ]


def _warnings(ranking: Ranking) -> dict[str, list[str]]:
    """List what was cut, for clients that see no headers."""
    cut = ["query was cut"] * ranking.is_query_cut
    cut += [f"documents[{position}] was cut" for position in ranking.batch.truncated]
    return {"warnings": cut} if cut else {}
