"""POST /search: the documents that answer a query. Knows the route; the collection searches."""

import time
from collections.abc import Iterable, Sequence

from fastapi import APIRouter, Request, Response

from service.api.embedder import EmbedderDependency, cost_headers
from service.api.facets import check_facets, facets_of
from service.api.json_route import JsonRoute
from service.api.policy import Access, policy
from service.api.request import RuntimeDependency, while_connected
from service.api.responses import dump_json, dumped_response
from service.api.routes.openapi import inference
from service.api.schemas.search import SearchRequest, SearchResponse
from service.api.search_queries import queries_of
from service.api.search_reranking import candidates, check_rerank, reranked
from service.api.thresholds import min_score_of
from service.documents.best_passage import Passage
from service.documents.filters import to_condition
from service.documents.query import Query
from service.documents.results import Match, Shown
from service.errors import InvalidInput
from service.runtime import Runtime

MAX_ANSWER_BYTES = 8_000_000

router = APIRouter(tags=["documents"], route_class=JsonRoute)


@router.post("/search", response_model=SearchResponse, responses=inference(scores=True), summary="Find documents")
@policy(Access.READ, strict=True, fast=True)
async def search(
    request: Request, body: SearchRequest, embedder: EmbedderDependency, runtime: RuntimeDependency
) -> Response:
    """The top_k best documents: nearest to the query, in any language, with its words, or both, as `mode` says.

    In place of a query, `vector` is one of the model, and `like` a document's id, which is not found itself.

    How surely the nearest are found is `recall` in `GET /info`.
    """
    started_at = time.monotonic()
    _check(body, runtime)
    shown = Shown(
        offset=body.offset,
        min_score=min_score_of(body, runtime),
        text=bool({"text", "passage"} & {*body.include}),
        metadata="metadata" in body.include,
        vector="vector" in body.include,
        max_chars=MAX_ANSWER_BYTES,
        filter_s=runtime.settings.request_timeout_s,
    )
    queries, batch = await queries_of(body, embedder, runtime)
    if not body.rerank:
        looking_up = runtime.read(_answer, runtime, body, queries, shown, started_at=started_at)
        answer = await while_connected(request, looking_up)
        return dumped_response(answer, headers={} if batch is None else cost_headers(batch))
    finding = runtime.read(
        runtime.collection.search_all, queries, top_k=body.rerank_k, filter_=body.filter, shown=candidates(shown)
    )
    found = await while_connected(request, finding)
    texts = [body.query] if body.query is not None else (body.queries or [])
    best = await reranked(body, texts, found, embedder=embedder, runtime=runtime)
    answer = await runtime.read(_as_json, best.matches, runtime, body, shown, started_at=started_at)
    return dumped_response(answer, headers=best.headers(batch))


def _check(body: SearchRequest, runtime: Runtime) -> None:
    """Refuse what can be refused before the query costs anything."""
    runtime.collections.of(runtime.collection_name)
    check_facets(body.facets, runtime)
    if body.rerank:
        check_rerank(body, runtime)
    limit, wanted = runtime.settings.max_top_k, body.offset + body.top_k
    named = f"top_k is {body.top_k}" if not body.offset else f"offset and top_k together are {wanted}"
    if wanted > limit:
        raise InvalidInput(f"{named}; the limit is {limit} (CROSSLET_MAX_TOP_K)")
    queries, most = len(body.queries or [None]), runtime.settings.max_results
    if queries * wanted > most:
        raise InvalidInput(
            f"{named}: {queries} queries ask for {queries * wanted} results; the limit is {most} (CROSSLET_MAX_RESULTS)"
        )
    if body.filter:
        to_condition(body.filter)


def _answer(runtime: Runtime, body: SearchRequest, queries: list[Query], shown: Shown, *, started_at: float) -> bytes:
    top_k = body.offset + body.top_k
    found = runtime.collection.search_all(queries, top_k=top_k, filter_=body.filter, shown=shown)
    return _as_json(found, runtime, body, shown, started_at=started_at)


def _as_json(
    found: Sequence[Sequence[Match]], runtime: Runtime, body: SearchRequest, shown: Shown, *, started_at: float
) -> bytes:
    wanted: set[str] = {*body.include}
    results = _within_limit(dump_json([_result(match, wanted) for match in matches]) for matches in found)
    lists = results[0] if body.queries is None else b"[%b]" % b",".join(results)
    facets = facets_of(runtime, body.facets, body.filter)
    others = facets | ({"min_score": shown.min_score} if body.min_score == "auto" else {})
    others["took_ms"] = round((time.monotonic() - started_at) * 1000, 2)
    return b'{"results":%b,%b' % (lists, dump_json(others)[1:])


def _within_limit(answers: Iterable[bytes]) -> list[bytes]:
    """Collect the answers of all queries. A document found by several queries is repeated, so they can grow large."""
    kept: list[bytes] = []
    for answer in answers:
        kept.append(answer)
        if sum(map(len, kept)) > MAX_ANSWER_BYTES:
            raise InvalidInput(
                f"the answer would have more than {MAX_ANSWER_BYTES} bytes; send fewer queries, a smaller top_k, or "
                "leave text and vector out of include and ask for documents by id"
            )
    return kept


def _result(match: Match, wanted: set[str]) -> dict[str, object]:
    document, passage = match.document, match.passage
    result: dict[str, object] = {"id": document.id, "score": match.score}
    if "text" in wanted:
        result["text"] = document.text
    if "passage" in wanted and passage is None:
        passage = Passage(document.text, 0, len(document.text))
    if passage is not None:
        result["passage"] = {"text": passage.text, "start": passage.start, "end": passage.stop}
    if "metadata" in wanted:
        result["metadata"] = document.metadata
    if "ranks" in wanted:
        result["ranks"] = {"dense": match.dense_rank, "keywords": match.keywords_rank}
    if match.vector_D is not None:
        result["vector"] = match.vector_D
    return result
