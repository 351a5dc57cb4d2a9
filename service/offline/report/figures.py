"""What the report says of a store, as numbers: scores, language bias, hubs, cut documents.

Q queries, S sampled documents, L languages, K nearest
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from service.documents.document import Rows
from service.offline.report.nearest import Nearest
from service.offline.report.sample import OTHER, grouped

Floats = npt.NDArray[np.floating]

ABOVE = 0.001  # share of unrelated documents that should score above a threshold
ABOVE_PAIR = 0.01  # the same for a pair of languages, which has fewer scores
LEAST_SCORES = 300  # of a language or a pair; with fewer, it has no figures
HUB_SHARE, HUB_TIMES = 0.05, 5  # a hub is near to 5 % of the queries, and to 5 times as many as chance gives
SHOWN = 10
NORMAL = NormalDist()


@dataclass(frozen=True)
class Threshold:
    """A score that 1 in 1,000 unrelated documents exceeds, by `tail`.

    kept: share of queries whose own document reaches it.  above: share of the documents drawn by chance that do.
    """

    score: float
    kept: float
    above: float
    queries: int


@dataclass(frozen=True)
class Pairs:
    """By language of query and document, (L, L); nan where too few were drawn.

    level_LL: median score of documents drawn by chance.  threshold_LL: what 1 in 100 exceeds, by `tail`.
    lift_LL: share of the ten nearest, over the language's share of the documents.
    """

    languages: list[str]
    level_LL: Floats
    threshold_LL: Floats
    lift_LL: Floats

    @property
    def bias(self) -> float:
        """The most that a document's language alone adds to a score: the widest row of `level_LL`; 0: one language."""
        rows = [row[np.isfinite(row)] for row in self.level_LL]
        return max((float(np.ptp(row)) for row in rows if len(row)), default=0.0)


@dataclass(frozen=True)
class Hub:
    """A document that is often near. share: of the queries, among whose ten nearest it is."""

    id: str
    share: float
    is_hub: bool


def tail(scores: Floats, above: float) -> float:
    """Return the score that a share of normal scores exceeds, from their median and 90th percentile.

    Chance also draws translations and near-copies: few, but they would be the top of any sample.
    """
    median, upper = np.quantile(scores, [0.5, 0.9]).tolist()
    return min(1.0, float(median + (upper - median) / NORMAL.inv_cdf(0.9) * NORMAL.inv_cdf(1 - above)))


def thresholds(own_Q: Floats, unrelated_QS: Floats, languages: Sequence[str]) -> dict[str, Threshold]:
    """Return thresholds for `all` queries and by language. unrelated_QS: nan for a query's own document."""
    of_Q = np.array(languages)
    groups = {"all": np.ones(len(of_Q), bool)} | {name: of_Q == name for name in grouped(languages) if name != OTHER}
    found = {}
    for name, chosen_Q in groups.items():
        scores = unrelated_QS[chosen_Q]
        scores = scores[np.isfinite(scores)]
        if len(scores) < LEAST_SCORES:
            continue
        score = tail(scores, ABOVE)
        kept, above = float((own_Q[chosen_Q] >= score).mean()), float((scores >= score).mean())
        found[name] = Threshold(score, kept, above, int(chosen_Q.sum()))
    return found


def pairs(
    unrelated_QS: Floats, of_query: Sequence[str], of_document: Sequence[str], near: Nearest, of_row: Mapping[int, str]
) -> Pairs:
    """Compare languages. near: the ten nearest of each query besides its own document.  of_row: their languages."""
    names = grouped(of_document)
    place = {name: number for number, name in enumerate(names)}

    def numbered(languages: Sequence[str]) -> Rows:
        return np.array([place.get(name, place.get(OTHER, -1)) for name in languages], np.int64)

    query_Q, document_S, count = numbered(of_query), numbered(of_document), len(names)
    level_LL, threshold_LL, lift_LL = (np.full((count, count), np.nan) for _ in range(3))
    share_L = np.bincount(document_S, minlength=count) / len(document_S)
    for query in range(count):
        is_query_Q = query_Q == query
        rows = near.rows_QK[is_query_Q]
        found = numbered([of_row[row] for row in rows[rows >= 0].tolist()])
        if len(found) >= LEAST_SCORES:
            lift_LL[query] = np.bincount(found[found >= 0], minlength=count) / len(found) / share_L
        for document in range(count):
            scores = unrelated_QS[is_query_Q][:, document_S == document]
            scores = scores[np.isfinite(scores)]
            if len(scores) >= LEAST_SCORES:
                level_LL[query, document] = np.median(scores)
                threshold_LL[query, document] = tail(scores, ABOVE_PAIR)
    return Pairs(names, level_LL, threshold_LL, lift_LL)


def hubs(near: Nearest, documents: int, ids: Mapping[int, str]) -> list[Hub]:
    """Return the documents that are near most often, and all hubs. ids: by row."""
    queries, k = near.rows_QK.shape
    times = Counter(near.rows_QK[near.rows_QK >= 0].tolist())
    by_chance = min(k, documents) / documents
    found: list[Hub] = []
    for row, count in sorted(times.items(), key=lambda item: (-item[1], item[0])):
        share = count / queries
        is_hub = share >= HUB_SHARE and share >= HUB_TIMES * by_chance
        if len(found) >= SHOWN and not is_hub:
            break
        found.append(Hub(ids[row], share, is_hub))
    return found
