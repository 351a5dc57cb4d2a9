"""Scores the passages of one request against its query. Knows requests and the engine; shapes no answer.

N passages
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Annotated
from urllib.parse import quote

import numpy as np
from fastapi import Depends, Request

from service.engine.fair_queue import EncodedBatch
from service.engine.pairs import Input
from service.engine.scorers import Scorer, Scores
from service.errors import InvalidInput
from service.http.dependencies import Embedder, cost_headers, one_or_listed, runtime_of, while_connected

RANKED_BY = "x-reranker"


@dataclass(frozen=True)
class Ranking:
    """What the passages of a request came to, in its order.

    scores_N: in [0, 1].  raw_N: cosines or logits.  batch: what it cost; `truncated` are positions of passages.
    is_query_cut: whether a bi-encoder read less than the query.  ranked_by: the model's name.
    """

    scores_N: Scores
    raw_N: Scores
    batch: EncodedBatch
    is_query_cut: bool
    ranked_by: str

    @property
    def order(self) -> list[int]:
        """Positions, best first; equal scores keep their order."""
        best_first: list[int] = np.argsort(-self.scores_N, kind="stable").tolist()
        return best_first

    @property
    def headers(self) -> dict[str, str]:
        """Those of an embedding's answer, and what has scored."""
        headers = cost_headers(self.batch)
        if self.is_query_cut:
            headers["x-truncated"] += "; query"
        return headers | ranked_by_header(self.ranked_by)


def ranked_by_header(name: str) -> dict[str, str]:
    """What has scored, for answers without such a field. Headers have no other alphabets: others are quoted."""
    return {RANKED_BY: quote(name, safe=" ()/@:.,+")}


class Ranker:
    """Scores passages with the model that is there, by the queue, the limits and the accounts of texts."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._runtime = runtime_of(request)
        self._embedder = Embedder(request)

    async def rank(
        self, query: str, passages: Sequence[str], *, name: str, truncate: bool = True, windows: bool = False
    ) -> Ranking:
        """Score passages; a score never depends on the other passages.

        Args:   name: what messages call the passages.  windows: a long one has the score of its best window.
        Raises: InvalidInput, TextTooLong, TooLarge, Overloaded, NotReady, InferenceFailed, ClientGone: as `Embedder`.
        """
        scorer, place = self._runtime.scorer, one_or_listed(name, passages)
        self._embedder.check([query], name="query", place=one_or_listed("query", query))
        self._embedder.check(passages, name=name, place=place)
        before = scorer.before(query)
        parts: list[Sequence[Input]] = [[scorer.whole(query, passage)] for passage in passages]
        if windows:
            parts = await self._windows(query, passages, name=name)
        owners = list(chain.from_iterable(repeat(number, len(part)) for number, part in enumerate(parts)))
        ahead = len(before)
        batch = await self._embedder.compute(
            [*before, *chain.from_iterable(parts)],
            place=lambda position: place(owners[position - ahead]) if position >= ahead else "query",
            truncate=truncate,
        )
        cut = dict.fromkeys(owners[position - ahead] for position in batch.truncated if position >= ahead)
        raw_N = _best(scorer.raw(batch.embeddings), owners, len(passages))
        return Ranking(
            scores_N=scorer.scores(raw_N),
            raw_N=scorer.logits(raw_N),
            batch=dataclasses.replace(batch, truncated=tuple(cut)),
            is_query_cut=any(position < ahead for position in batch.truncated),
            ranked_by=scorer.name,
        )

    async def _windows(self, query: str, passages: Sequence[str], *, name: str) -> list[Sequence[Input]]:
        """The windows of each passage, cut in the threads for look-ups: they need the whole passage's tokens."""
        with self._embedder.room_for([query, *passages]):
            cutting = self._runtime.read(
                _cut, self._runtime.scorer, query, passages, name=name, limit=self._runtime.settings.max_texts
            )
            return await while_connected(self._request, cutting)


def _cut(scorer: Scorer, query: str, passages: Sequence[str], *, name: str, limit: int) -> list[Sequence[Input]]:
    parts: list[Sequence[Input]] = []
    count = 0
    for position, passage in enumerate(passages):
        parts.append(scorer.windows(query, passage))
        count += len(parts[-1])
        if count > limit:
            raise InvalidInput(
                f"{name} has {count} windows up to position {position}; the limit is {limit} (CROSSLET_MAX_TEXTS): "
                "send fewer texts, or shorter ones, or leave windows out"
            )
    return parts


def _best(raw_N: Scores, owners: Sequence[int], count: int) -> Scores:
    """The highest of each passage's windows."""
    best_N = np.full(count, -np.inf)
    np.maximum.at(best_N, owners, raw_N)
    return best_N


async def _ranker(request: Request) -> Ranker:
    return Ranker(request)


RankerDependency = Annotated[Ranker, Depends(_ranker)]
