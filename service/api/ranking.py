"""Scores the passages of one request against its query.

N passages
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np

from service.api.request import Embedder, cost_headers, one_or_listed
from service.engine.fair_queue import EncodedBatch
from service.engine.pairs import Input
from service.engine.scorers import ScoreArray, Scorer
from service.errors import InvalidInput
from service.runtime import Runtime, Steps


@dataclass(frozen=True)
class Ranking:
    """The scores of a request's passages, in the request's order.

    scores_N: in [0, 1].  raw_N: before they were mapped to [0, 1].  reranker_N: the re-ranker's own, if wanted.
    batch: the cost; `truncated` holds positions of passages.
    is_query_cut: whether a model read only part of the query.
    ranked_by: the name of what scored.
    """

    scores_N: ScoreArray
    raw_N: ScoreArray
    batch: EncodedBatch
    is_query_cut: bool
    ranked_by: str
    reranker_N: ScoreArray | None = None

    @property
    def order(self) -> list[int]:
        """Positions, best first; equal scores keep their order."""
        best_first: list[int] = np.argsort(-self.scores_N, kind="stable").tolist()
        return best_first

    def own_score(self, position: int) -> dict[str, float]:
        """Return what an answer says of the re-ranker's own score of a passage: nothing, unless it is wanted."""
        return {} if self.reranker_N is None else {"reranker_score": float(self.reranker_N[position])}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an inference answer, and the name of what scored."""
        headers = cost_headers(self.batch)
        if self.is_query_cut:
            headers["x-truncated"] += "; query"
        return headers | ranked_by_header(self.ranked_by)


def ranked_by_header(name: str) -> dict[str, str]:
    """Return the header that names what scored. Headers are ASCII: other letters are percent-encoded."""
    return {"x-reranker": quote(name, safe=" ()/@:.,+")}


@dataclass(frozen=True)
class ScorerInputs:
    """The inputs of one scorer.  owners: the position of each input's passage; None: the input is the query."""

    scorer: Scorer
    inputs: list[Input]
    owners: list[int | None]

    def best(self, batch: EncodedBatch, count: int) -> ScoreArray:
        """Return the highest score among each passage's inputs; the lowest there is for a passage without any."""
        owners = [owner for owner in self.owners if owner is not None]
        best_N = np.full(count, self.scorer.lowest)
        np.maximum.at(best_N, owners, self.scorer.raw(self.scorer.vectors(batch)))
        return best_N


def check_cut(runtime: Runtime, tokens: int, *, windows: bool) -> None:
    """Refuse a request to cut passages after `tokens`, unless every model reads at most as many.

    Raises: InvalidInput: passages are cut where a model stops reading, or not at all.
    """
    if windows:
        raise InvalidInput("max_tokens_per_doc has no effect with windows, which read all of a passage: send one")
    longest = max(runtime.manifest.max_length, runtime.reranker.manifest.max_length if runtime.reranker else 0)
    if tokens < longest:
        raise InvalidInput(
            f"max_tokens_per_doc is {tokens}; a passage is cut where a model stops reading, here after "
            f"{longest} tokens: leave it out, or send shorter passages"
        )


async def rank(
    embedder: Embedder,
    query: str,
    passages: Sequence[str],
    *,
    name: str,
    truncate: bool,
    windows: bool,
    reranker_scores: bool,
) -> Ranking:
    """Score passages with the loaded models; a score never depends on the other passages. Blank ones are last.

    Args:   name: what messages call the passages.  windows: a long one has the score of its best window.
            reranker_scores: whether the re-ranker's own are wanted, too.
    Raises: InvalidInput: also where all passages are empty.
            TextTooLong, TooLarge, Overloaded, NotReady, InferenceFailed, ClientGone: as `Embedder`.
    """
    place, scoring = one_or_listed(name, passages)[1], embedder.runtime.scoring
    passages = ["" if passage.isspace() else passage for passage in passages]
    if reranker_scores and scoring.pairs is None:
        raise InvalidInput(
            "reranker_scores is true, and this service has no re-ranker (CROSSLET_RERANKER); leave it out"
        )
    embedder.check([query], name="query", place=lambda _: "query")
    embedder.check(passages, name=name, place=place, may_be_empty=any(passages))
    if windows:  # to cut them, whole passages are tokenised
        cutting = _windows(scoring.scorers, query, passages, name=name, limit=embedder.runtime.settings.max_texts)
        with embedder.memory_for([query, *passages]):
            read = await embedder.prepare(
                cutting, what="cutting windows", way_out="send fewer texts, or shorter ones, or leave windows out"
            )
    else:
        read = [_whole_passages(scorer, query, passages) for scorer in scoring.scorers]
    owners = [owner for part in read for owner in part.owners]

    def place_of(position: int) -> str:
        owner = owners[position]
        return "query" if owner is None else place(owner)

    # One job: both models share its turns in the queue, its time limit and its cost.
    inputs = [text for part in read for text in part.inputs]
    batch = await embedder.compute(inputs, place=place_of, truncate=truncate)
    cut = {owners[position] for position in batch.truncated}
    best = [part.best(batch, len(passages)) for part in read]
    scores_N, raw_N = scoring.scores(best)
    batch = dataclasses.replace(batch, truncated=tuple(sorted(owner for owner in cut if owner is not None)))
    return Ranking(
        scores_N,
        raw_N,
        batch,
        is_query_cut=None in cut or batch.is_query_cut,
        ranked_by=scoring.name,
        reranker_N=best[-1] if reranker_scores else None,  # the last of the scorers
    )


def _whole_passages(scorer: Scorer, query: str, passages: Sequence[str]) -> ScorerInputs:
    before = scorer.before(query)
    owners = [position for position, passage in enumerate(passages) if passage]
    inputs = [*before, *(scorer.whole(query, passages[owner]) for owner in owners)]
    return ScorerInputs(scorer, inputs, [*(None for _ in before), *owners])


def _windows(
    scorers: Sequence[Scorer], query: str, passages: Sequence[str], *, name: str, limit: int
) -> Steps[list[ScorerInputs]]:
    scorer_inputs: list[ScorerInputs] = []
    for scorer in scorers:
        inputs = scorer.before(query)
        owners: list[int | None] = [None for _ in inputs]
        queries = len(inputs)
        for position, passage in enumerate(passages):
            parts = scorer.windows(query, passage) if passage else []
            inputs += parts
            owners += [position] * len(parts)
            count = len(inputs) - queries
            if count > limit:
                raise InvalidInput(
                    f"{name} has {count} windows up to position {position}; the limit is {limit} "
                    "(CROSSLET_MAX_TEXTS): send fewer texts, or shorter ones, or leave windows out"
                )
            yield
        scorer_inputs.append(ScorerInputs(scorer, inputs, owners))
    return scorer_inputs
