"""POST /search: the documents that answer a query. Knows the route; the collection searches."""

import asyncio
import time
from collections.abc import Iterable, Sequence

from fastapi import APIRouter, Request, Response

from service.documents.backend import DocumentIndex
from service.documents.best_passage import Passage
from service.documents.filters import to_condition
from service.documents.mode import Mode
from service.documents.query import Query
from service.documents.results import Match, Shown
from service.engine.fair_queue import EncodedBatch
from service.errors import InvalidInput
from service.http.dependencies import (
    Embedder,
    EmbedderDependency,
    RuntimeDependency,
    cost_headers,
    one_or_listed,
    while_connected,
)
from service.http.json_route import JsonRoute
from service.http.responses import dump_json, dumped_response
from service.http.routes.openapi import inference
from service.http.search_reranking import candidates, check_rerank, reranked
from service.runtime import Runtime
from service.schemas.documents import SearchRequest, SearchResponse

MAX_ANSWER_BYTES = 8_000_000

router = APIRouter(tags=["documents"], route_class=JsonRoute)


@router.post("/search", response_model=SearchResponse, responses=inference(scores=True), summary="Find documents")
async def search(
    request: Request, body: SearchRequest, embedder: EmbedderDependency, runtime: RuntimeDependency
) -> Response:
    """The top_k best documents: nearest to the query, in any language, with its words, or both, as `mode` says.

    How surely the nearest are found is `recall` in `GET /info`.
    """
    started_at = time.monotonic()
    _check(body, runtime)
    queries, batch = await _asked(body, embedder, mode=body.mode or runtime.settings.default_mode)
    shown = Shown(
        offset=body.offset,
        min_score=body.min_score,
        text=bool({"text", "passage"} & {*body.include}),
        metadata="metadata" in body.include,
        max_chars=MAX_ANSWER_BYTES,
        filter_s=runtime.settings.request_timeout_s,
    )
    if not body.rerank:
        looking_up = runtime.read(_answer, runtime.collection, body, queries, shown, started_at=started_at)
        answer = await while_connected(request, looking_up)
        return dumped_response(answer, headers={} if batch is None else cost_headers(batch))
    finding = runtime.read(
        runtime.collection.search_all, queries, top_k=body.rerank_k, filter_=body.filter, shown=candidates(shown)
    )
    found = await while_connected(request, finding)
    texts = [body.query] if body.query is not None else (body.queries or [])
    best = await reranked(body, texts, found, embedder=embedder, runtime=runtime)
    answer = await asyncio.to_thread(_as_json, best.matches, body, started_at=started_at)
    return dumped_response(answer, headers=best.headers(batch))


async def _asked(body: SearchRequest, embedder: Embedder, *, mode: Mode) -> tuple[list[Query], EncodedBatch | None]:
    """The queries, and what it took to embed them; None: nothing was embedded."""
    texts, name = ([body.query], "query") if body.query is not None else (body.queries or [], "queries")
    place, prompts = one_or_listed(name, body.query), embedder.prompts
    prompt = prompts.chosen(body.prompt_name, body.input_type, otherwise=prompts.query)
    if mode == "keywords":
        embedder.check(texts, name=name, place=place)
        return [Query(words=text) for text in texts], None
    batch = await embedder.embed(texts, name=name, prompt=prompt, place=place, space=embedder.document_space)
    vectors = zip(texts, batch.embeddings, strict=True)
    return [Query(vector_D, text if mode == "hybrid" else None) for text, vector_D in vectors], batch


def _check(body: SearchRequest, runtime: Runtime) -> None:
    if body.rerank:
        check_rerank(body, runtime)
    limit, wanted = runtime.settings.max_top_k, body.offset + body.top_k
    named = f"top_k is {body.top_k}" if not body.offset else f"offset and top_k together are {wanted}"
    if wanted > limit:
        raise InvalidInput(f"{named}; the limit is {limit} (CROSSLET_MAX_TOP_K)")
    queries, most = len(body.queries or [body.query]), runtime.settings.max_results
    if queries * wanted > most:
        raise InvalidInput(
            f"{named}: {queries} queries ask for {queries * wanted} results; the limit is {most} (CROSSLET_MAX_RESULTS)"
        )
    if body.filter:
        to_condition(body.filter)  # a malformed filter is refused before the query costs anything


def _answer(
    collection: DocumentIndex, body: SearchRequest, queries: list[Query], shown: Shown, *, started_at: float
) -> bytes:
    found = collection.search_all(queries, top_k=body.offset + body.top_k, filter_=body.filter, shown=shown)
    return _as_json(found, body, started_at=started_at)


def _as_json(found: Sequence[Sequence[Match]], body: SearchRequest, *, started_at: float) -> bytes:
    wanted: set[str] = {*body.include}
    results = _within_limit(dump_json([_result(match, wanted) for match in matches]) for matches in found)
    lists = results[0] if body.query is not None else b"[%b]" % b",".join(results)
    took_ms = round((time.monotonic() - started_at) * 1000, 2)
    return b'{"results":%b,"took_ms":%b}' % (lists, dump_json(took_ms))


def _within_limit(answers: Iterable[bytes]) -> list[bytes]:
    """Collect the answers of all queries. A document found by several queries is repeated, so they can grow large."""
    kept: list[bytes] = []
    for answer in answers:
        kept.append(answer)
        if sum(map(len, kept)) > MAX_ANSWER_BYTES:
            raise InvalidInput(
                f"the answer would have more than {MAX_ANSWER_BYTES} bytes; send fewer queries, a smaller top_k, or "
                "leave text out of include and ask for it by id"
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
    return result
