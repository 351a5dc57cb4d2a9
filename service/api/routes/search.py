"""POST /search: the documents that answer a query; and counts by metadata value, as POST /documents/count has them.

D dims
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from fastapi import APIRouter, Request, Response

from service.api.highlights import Highlights, highlighted
from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import (
    Embedder,
    EmbedderDependency,
    RequestFacts,
    RuntimeDependency,
    SearchFacts,
    cost_headers,
    one_or_listed,
    while_connected,
)
from service.api.responses import dump_json, dumped_response
from service.api.routes.openapi import inference
from service.api.schemas.search import AUTO, Prefer, SearchRequest, SearchResponse
from service.api.search_reranking import candidates, rerank_k_of, reranked
from service.documents.document import Vectors
from service.documents.filters import filter_chars, to_condition
from service.documents.interface import Match, Matches, Passage, Preference, Query, ResultOptions, SortField
from service.documents.keywords.near import base_language
from service.documents.language import language_of, preference
from service.documents.names import Mode
from service.engine.fair_queue import EncodedBatch
from service.errors import InvalidInput, NotFound
from service.model.stages import StageTimer
from service.runtime import LONG_BYTES, Runtime, Steps

MAX_ANSWER_BYTES = 8_000_000
COMPARED = 20  # nearest documents, with the first: is any a translation of it?
ALL_LANGUAGES = "all"  # the threshold for queries of any language

router = APIRouter(tags=["documents"], route_class=JsonRoute)


@router.post("/search", response_model=SearchResponse, responses=inference(403, scores=True), summary="Find documents")
@Policy(Access.READ, Reach.COLLECTION, strict=True)
async def search(
    request: Request, body: SearchRequest, embedder: EmbedderDependency, runtime: RuntimeDependency
) -> Response:
    """The top_k best documents: nearest to the query, in any language, with its words, or both, as `mode` says.

    In place of a query, `vector` is one of the model, and `like` a document's id, which is not found itself. Without
    any of these, all documents that match the filter are listed in the order of `sort`.

    How surely the nearest are found is `recall` in `GET /info`.
    """
    started_at = time.monotonic()
    _check(body, runtime)
    await _check_conditions(body, runtime)
    rerank_k = rerank_k_of(body, runtime, wanted=depth_of(body)) if body.rerank else None
    unsure = _why_unsure(body, runtime)
    options = ResultOptions(
        offset=body.offset,
        limit=body.top_k,
        group_by=body.group_by,
        sort=tuple(SortField(field, order == "desc") for by in body.sort for field, order in by.items()),
        min_score=_min_score_of(body, runtime),
        text=bool({"text", "passage", "highlights"} & {*body.include}),
        metadata="metadata" in body.include,
        vector="vector" in body.include,
        words="highlights" in body.include,
        compared=0 if unsure is not None else rerank_k or COMPARED,
        max_chars=MAX_ANSWER_BYTES,
        timeout_s=runtime.settings.request_timeout_s,
    )
    queries, batch = await _queries_of(body, embedder, runtime)
    preferred = None
    if body.prefer is not None:
        queries, preferred = await preferring(body, body.prefer, queries, embedder)
    as_json = partial(
        _as_json,
        body=body,
        runtime=runtime,
        min_score=options.min_score,
        preferred=preferred,
        unsure=unsure,
        started_at=started_at,
        facts=request.state.facts,
    )

    def find(top_k: int, options: ResultOptions) -> list[Matches]:
        with StageTimer("search"):
            return runtime.collection.search_all(queries, top_k=top_k, filter_=body.filter, options=options)

    if not body.rerank and not options.words:
        looking_up = runtime.read(lambda: as_json(find(depth_of(body), options)))
        return dumped_response(await while_connected(request, looking_up), headers=cost_headers(batch))
    best, marks, marking = None, None, None
    if rerank_k is not None:
        candidates_ = await while_connected(request, runtime.read(find, rerank_k, candidates(options)))
        best = await reranked(body, candidates_, embedder, depth=depth_of(body))
    matches = best.matches if best else await while_connected(request, runtime.read(find, depth_of(body), options))
    if options.words:
        marks, marking = await highlighted(matches, queries, embedder)
    headers = best.headers(batch, marking) if best else cost_headers(batch, marking)
    return dumped_response(await runtime.read(as_json, matches, marks), headers=headers)


def _check(body: SearchRequest, runtime: Runtime) -> None:
    """Refuse what can be refused before the query costs anything."""
    runtime.collections.of(runtime.collection_name)
    check_facets(body.facets, runtime)
    limit, wanted, paged = runtime.settings.max_top_k, depth_of(body), body.offset + body.top_k
    named = f"top_k is {body.top_k}" if not body.offset else f"offset and top_k together are {paged}"
    if is_filter_alone(body):
        wanted = body.top_k  # its pages may go on to the last document
    elif body.sort_k is not None:
        named = f"sort_k is {wanted}"
    elif body.sort and body.offset:
        raise InvalidInput(f"offset is {body.offset}, but only the query's best {wanted} are sorted: send sort_k, too")
    if wanted > limit:
        raise InvalidInput(f"{named}; the limit is {limit} (CROSSLET_MAX_TOP_K)")
    queries, most = len(body.queries or [None]), runtime.settings.max_results
    if queries * wanted > most:
        raise InvalidInput(
            f"{named}: {queries} queries ask for {queries * wanted} results; the limit is {most} (CROSSLET_MAX_RESULTS)"
        )


async def _check_conditions(body: SearchRequest, runtime: Runtime) -> None:
    """Refuse a malformed filter."""
    liked = None if body.prefer is None else {body.prefer.field: body.prefer.value}
    conditions = [condition for condition in (body.filter, liked) if condition]

    def check() -> None:
        for condition in conditions:
            to_condition(condition)

    if sum(map(filter_chars, conditions)) > LONG_BYTES:  # the time it takes grows with its strings
        await runtime.preparation.call(check)
    else:
        check()


def is_filter_alone(body: SearchRequest) -> bool:
    """Return whether there is no query."""
    return body.query is None and body.queries is None and body.vector is None and body.like is None


def depth_of(body: SearchRequest) -> int:
    """Return how many of the best results are looked for, whatever is sorted, or left out of the page."""
    if body.sort and not is_filter_alone(body):
        return body.sort_k or body.top_k
    return body.offset + body.top_k


def _as_json(
    matches: Sequence[Matches],
    marks: Sequence[Sequence[Highlights | None]] | None = None,
    *,
    body: SearchRequest,
    runtime: Runtime,
    min_score: float | None,
    preferred: list[str | None] | None,
    unsure: str | None,
    started_at: float,
    facts: RequestFacts,
) -> bytes:
    """Return the answer for the matches of each query. Blocks."""
    wanted: set[str] = {*body.include}
    answers = [] if is_filter_alone(body) else [_answer(of_query, body, runtime, unsure) for of_query in matches]
    if marks is None:
        marks = [[None] * len(of_query) for of_query in matches]
    if "withheld" not in wanted:
        is_shown = [answer["answered"] for answer in answers] or [True] * len(matches)
        matches = [
            of_query if shown else without_results(of_query) for of_query, shown in zip(matches, is_shown, strict=True)
        ]
        marks = [of_query if shown else [] for of_query, shown in zip(marks, is_shown, strict=True)]
    results = _within_limit(
        dump_json([_result(match, wanted, mark) for match, mark in zip(of_query, of_marks, strict=True)])
        for of_query, of_marks in zip(matches, marks, strict=True)
    )
    lists = results[0] if body.queries is None else b"[%b]" % b",".join(results)
    others: dict[str, object] = {"answers": answers} if body.queries else {**next(iter(answers), {})}
    others["total"] = [of_query.total for of_query in matches]
    if not all(of_query.is_counted for of_query in matches):
        others["total_is"] = "at_least"
    if preferred is not None:
        others["preferred"] = preferred
    if body.queries is None:
        others |= {name: value[0] for name, value in others.items() if isinstance(value, list)}
    if body.facets:
        others |= counted(runtime, body.facets, body.filter)
        del others["count"]
    if body.min_score == "auto":
        others["min_score"] = min_score
    took_s = time.monotonic() - started_at
    others["took_ms"] = round(took_s * 1000, 2)
    if not body.typing:  # an unfinished word finds nothing at times
        is_empty, is_slow = not body.offset and not any(matches), took_s >= runtime.settings.slow_search_s
        facts.search = SearchFacts(runtime.collection_name, is_empty, is_slow)
    return b'{"results":%b,%b' % (lists, dump_json(others)[1:])


def _why_unsure(body: SearchRequest, runtime: Runtime) -> str | None:
    """Return why no confidence can be told, whatever is found; None: it can.

    Raises: InvalidInput: the request has a `min_confidence` nevertheless.
    """
    reason = None
    if body.vector is not None or body.like is not None:
        reason = f"{'vector' if body.like is None else 'like'} asks nothing that a document answers"
    elif _mode_of(body, runtime) == "keywords":
        reason = "a search by keywords has no cosines; mode hybrid has"
    elif runtime.settings.space:
        reason = f"the model's own space was measured, not {runtime.settings.space} (CROSSLET_SPACE)"
    elif runtime.manifest.confidence is None:
        reason = f"model {runtime.manifest.name} was not calibrated (`crosslet evaluate --calibrate`)"
    if reason is not None and body.min_confidence is not None:
        raise _no_confidence(reason)
    return reason


def _no_confidence(reason: str) -> InvalidInput:
    return InvalidInput(f"min_confidence needs a confidence, and {reason}; leave min_confidence out")


def _answer(matches: Matches, body: SearchRequest, runtime: Runtime, unsure: str | None) -> dict[str, object]:
    """Return how likely the first document answers, and whether there are results that may be shown.

    Raises: InvalidInput: the request has a `min_confidence`, but too few documents match to tell.
    """
    model, settings, confidence = runtime.manifest.confidence, runtime.settings, None
    if unsure is None and model is not None:
        confidence = 0.0
        if matches.evidence is not None:
            options = {"answerable": settings.expected_answerable}
            if (own := runtime.collection.recalibration) is not None:
                options |= own.options(runtime.manifest.confidence_fingerprint)
            confidence = model.probability(matches.evidence, **options)
            if confidence is None:
                unsure = "no document that matches differs from the first"
                if body.min_confidence is not None:
                    raise _no_confidence(unsure)
    least = settings.min_confidence if body.min_confidence is None else body.min_confidence
    is_sure = least is None or confidence is None or confidence >= least
    answer: dict[str, object] = {"confidence": confidence, "answered": bool(matches) and is_sure}
    return answer if unsure is None else answer | {"confidence_is_null": unsure}


def without_results(matches: Matches) -> Matches:
    """Return no results, with the same facts."""
    empty = Matches()
    empty.total, empty.is_counted = matches.total, matches.is_counted
    return empty


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


def _result(match: Match, wanted: set[str], highlights: Highlights | None) -> dict[str, object]:
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
    if "reranker_score" in wanted:
        result["reranker_score"] = match.reranker_score
    if highlights is not None:
        result["highlights"] = highlights
    if match.vector_D is not None:
        result["vector"] = match.vector_D
    if match.group is not None:
        result |= {"group": match.group.value, "group_size": match.group.size}
    return result


async def preferring(
    body: SearchRequest, prefer: Prefer, queries: Sequence[Query], embedder: Embedder
) -> tuple[list[Query], list[str | None] | None]:
    """Return the queries with what they prefer, and their languages, if those decide."""
    if prefer.value != AUTO:
        wanted = Preference(prefer.field, prefer.value, prefer.weight)
        return [replace(query, prefer=wanted) for query in queries], None
    languages: list[str | None] = [body.language] * len(queries)
    if body.language is None:
        steps = _languages([body.query] if body.query is not None else body.queries or [])
        languages = await embedder.prepare(
            steps, what="telling the languages", way_out="send language, or fewer queries"
        )
    preferred = [
        query if language is None else replace(query, prefer=preference(language, prefer.field, prefer.weight))
        for query, language in zip(queries, languages, strict=True)
    ]
    return preferred, languages


def _languages(texts: Sequence[str]) -> Steps[list[str | None]]:
    languages: list[str | None] = []
    for text in texts:
        languages.append(language_of(text))
        yield
    return languages


async def _queries_of(
    body: SearchRequest, embedder: Embedder, runtime: Runtime
) -> tuple[list[Query], EncodedBatch | None]:
    """The queries, and what it took to embed them; None: nothing was embedded.

    Raises: InvalidInput: the vector has another dim than the documents', or no direction.
            NotFound: no document has the id of `like`.  What `Embedder.embed` does.
    """
    if body.vector is not None:
        return [Query(_of_norm_1(body.vector, dim=(embedder.document_space or runtime.manifest).dim))], None
    if body.like is not None:
        vector_D = await runtime.read(runtime.collection.vector, body.like)
        if vector_D is None:
            raise NotFound("no document has the id that like names")
        return [Query(vector_D, without=body.like)], None
    if is_filter_alone(body):
        return [Query()], None
    return await _embedded_queries(body, embedder, runtime)


async def _embedded_queries(
    body: SearchRequest, embedder: Embedder, runtime: Runtime
) -> tuple[list[Query], EncodedBatch | None]:
    name = "queries" if body.query is None else "query"
    texts, place = one_or_listed(name, body.queries or [] if body.query is None else body.query)
    prompts = runtime.encoder.prompts
    prompt = prompts.chosen(body.prompt_name, body.input_type, otherwise=prompts.query)
    mode = _mode_of(body, runtime)
    embedder.check(texts, name=name, place=place)
    if mode == "keywords":
        return [Query(words=text, typing=body.typing, text=text) for text in texts], None
    batch = await embedder.compute(texts, prompt=prompt, place=place, space=embedder.document_space)
    words = [text if mode == "hybrid" else None for text in texts]
    asked = zip(batch.embeddings, words, texts, strict=True)
    return [Query(vector_D, word, typing=body.typing, text=text) for vector_D, word, text in asked], batch


def _mode_of(body: SearchRequest, runtime: Runtime) -> Mode:
    """The mode of a request that asks by text. Words that are being typed are looked for in any case."""
    return body.mode or ("hybrid" if body.typing else runtime.default_mode)


def _of_norm_1(numbers: Sequence[float], *, dim: int) -> Vectors:
    if len(numbers) != dim:
        raise InvalidInput(f"vector has {len(numbers)} numbers; those of the documents have {dim} (`dim` in GET /info)")
    given_D = np.asarray(numbers, np.float64)
    largest = np.abs(given_D).max()
    if not largest or not np.isfinite(largest):
        raise InvalidInput("vector has only zeros, or a number beyond 64-bit floats; it needs a direction")
    scaled_D = given_D / largest  # no square overflows
    unit_D: Vectors = (scaled_D / np.linalg.norm(scaled_D)).astype(np.float32)
    return unit_D


def _min_score_of(body: SearchRequest, runtime: Runtime) -> float | None:
    """The threshold of a request; of `auto` the one recommended for its language, else for all.

    Raises: InvalidInput: none is recommended for these scores.
    """
    if not isinstance(body.min_score, str):
        return body.min_score
    if body.has_words and _mode_of(body, runtime) == "keywords":
        raise InvalidInput("min_score is auto, a threshold for cosines; a search by keywords has none: send a number")
    if runtime.settings.space:
        raise InvalidInput(
            f"min_score is auto, but the model's own space was measured, not {runtime.settings.space} "
            "(CROSSLET_SPACE): send a number"
        )
    recommended = runtime.manifest.min_scores
    language = base_language(body.language or ALL_LANGUAGES)
    chosen = recommended.get(language, recommended.get(ALL_LANGUAGES))
    if chosen is None:
        raise InvalidInput(
            f"min_score is auto, but model {runtime.manifest.name} recommends none (`min_scores` in GET /info): send a "
            "number"
        )
    return chosen


def check_facets(fields: Sequence[str], runtime: Runtime) -> None:
    """Raises: InvalidInput: there are more fields than may be counted."""
    limit = runtime.settings.max_facets
    if len(fields) > limit:
        raise InvalidInput(f"facets has {len(fields)} fields; the limit is {limit} (CROSSLET_MAX_FACETS)")


def counted(runtime: Runtime, fields: Sequence[str], filter_: Mapping[str, object] | None) -> dict[str, object]:
    """How many documents match a filter, and what an answer says of their facets. Blocks.

    Raises: InvalidInput: counting takes too long.
    """
    settings = runtime.settings
    count, found = runtime.collection.counts(
        fields, most_values=settings.max_facet_values, filter_=filter_, timeout_s=settings.request_timeout_s
    )
    answer: dict[str, object] = {"count": count}
    if fields:
        answer["facets"] = {field: facet.counts for field, facet in found.items()}
    if cut := [field for field, facet in found.items() if facet.is_cut]:
        answer["facets_cut"] = cut
    if not all(facet.is_counted for facet in found.values()):
        answer["facets_are"] = "at_least"
    return answer
