"""Re-ranks the documents that a search has found. Knows the engine and matches; searches nothing.

A document's new score is the search's, moved towards 1 by the re-ranker's: see `with_reranker`. A small re-ranker alone
orders documents in several languages worse than their cosines do; both together are better than either.

The re-ranker reads the best passage of a document that has several.

N documents of all queries
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.api.ranking import ranked_by_header
from service.api.request import Embedder, cost_headers
from service.api.schemas.search import SearchRequest
from service.blending import with_reranker
from service.documents.interface import Matches, ResultOptions
from service.engine.fair_queue import EncodedBatch
from service.engine.scorers import PairScorer
from service.errors import InvalidInput
from service.runtime import Runtime

USUAL_RERANK_K = 20  # reading more costs much and gains little (docs/guide/rerank.md)
FEWER = "send fewer queries, or a smaller rerank_k: the re-ranker reads the text of each, whatever include says"


@dataclass(frozen=True)
class Reranked:
    """Matches with their new scores, a list a query, and what that took; None: there was nothing to score."""

    matches: list[Matches]
    batch: EncodedBatch | None
    ranked_by: str

    def headers(self, queries: EncodedBatch | None, highlights: EncodedBatch | None) -> dict[str, str]:
        """What queries, pairs and sentences to highlight cost together; None: nothing was embedded for them."""
        headers = ranked_by_header(self.ranked_by) | cost_headers(queries, self.batch, highlights)
        if self.batch is not None and self.batch.truncated:
            headers["x-truncated"] += f"; documents={len(self.batch.truncated)}"
        return headers


def rerank_k_of(body: SearchRequest, runtime: Runtime, *, wanted: int) -> int:
    """Return how many documents the re-ranker reads for each query.

    Args:   wanted: how many of the best results are needed.
    Raises: InvalidInput: there is no re-ranker, or it would read more or fewer documents than it may.
    """
    if runtime.reranker is None:
        raise InvalidInput("rerank is true, and this service has no re-ranker (CROSSLET_RERANKER); leave it out")
    limits = runtime.settings
    rerank_k = body.rerank_k
    if rerank_k is None:
        rerank_k = max(wanted, min(USUAL_RERANK_K, limits.max_top_k))
    if rerank_k < wanted:
        needed = "sort_k is" if body.sort_k else "top_k is" if body.sort else "offset and top_k together are"
        raise InvalidInput(f"rerank_k is {rerank_k}, {needed} {wanted}: re-rank at least as many")
    if rerank_k > limits.max_top_k:
        raise InvalidInput(f"rerank_k is {rerank_k}; the limit is {limits.max_top_k} (CROSSLET_MAX_TOP_K)")
    pairs = len(body.queries or [body.query]) * rerank_k
    if pairs > limits.max_texts:
        raise InvalidInput(
            f"queries times rerank_k, {rerank_k}, are {pairs}; the re-ranker reads {limits.max_texts} pairs for a "
            "request (CROSSLET_MAX_TEXTS)"
        )
    return rerank_k


def candidates(options: ResultOptions) -> ResultOptions:
    """What to read of the documents that are to be re-ranked: their texts, and from the first one on."""
    return dataclasses.replace(options, offset=0, limit=None, text=True, way_out=FEWER)


async def reranked(body: SearchRequest, found: Sequence[Matches], embedder: Embedder, *, depth: int) -> Reranked:
    """The page that a request asks for of what its queries have found, best first; equal scores keep their order.

    If the request sorts, the `depth` best are in the order they were found in.

    Raises: TooLarge, Overloaded, NotReady, InferenceFailed, ClientGone: as `Embedder`.
    """
    reranker, weight = embedder.runtime.reranker, embedder.runtime.settings.rerank_weight
    assert reranker is not None  # noqa: S101 - `rerank_k_of`
    scorer = PairScorer(reranker)
    queries = [body.query] if body.query is not None else (body.queries or [])
    candidates_N = [match for matches in found for match in matches]
    if not candidates_N:
        return Reranked([*found], None, scorer.name)
    pairs = [
        scorer.whole(query, match.document.text if match.passage is None else match.passage.text)
        for query, matches in zip(queries, found, strict=True)
        for match in matches
    ]
    batch = await embedder.compute(pairs, place=lambda position: f"document {candidates_N[position].document.id}:")
    score_N, preference_N = np.array([(match.score, match.preference) for match in candidates_N], np.float64).T
    own_N = scorer.raw(batch.scores_P1)
    reranked_N = with_reranker(score_N, own_N, weight)
    if weight == "alone":
        reranked_N = reranked_N + preference_N  # the search's score, which has it, does not count
    scores, own_scores = iter(reranked_N.tolist()), iter(own_N.tolist())
    pages = []
    for matches in found:
        score_of = [next(scores) for _ in matches]
        own_of = [next(own_scores) for _ in matches]
        best = sorted(range(len(matches)), key=lambda at: -score_of[at])[:depth]
        if body.sort:
            best.sort()  # as they were found
        kept = best[body.offset : body.offset + body.top_k]
        page = Matches(dataclasses.replace(matches[at], score=score_of[at], reranker_score=own_of[at]) for at in kept)
        page.total, page.is_counted = matches.total, matches.is_counted
        if matches.evidence is not None and len(matches):
            first = matches[max(range(len(matches)), key=score_of.__getitem__)]
            place = matches.evidence.rows_N.index(first.row)
            page.evidence = dataclasses.replace(matches.evidence, first=place, text=first.document.text)
        pages.append(page)
    return Reranked(pages, batch, scorer.name)
