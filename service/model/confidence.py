"""The probability that the first result of a search answers its query: a logistic model of the evidence.

`crosslet evaluate --calibrate` fits it, and the artifact's manifest keeps it.

N candidates, F features, P products of two of them
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

if TYPE_CHECKING:  # at run time in functions: manifests are read before it is known whether numpy can be loaded
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

VERSION: Final = 3
NEXT = 5  # documents that the first is compared with
NEAREST = 100  # candidates whose cosines tell what is usual
USUAL_SPREAD, USUAL_WEIGHT = 0.08, 10  # of cosines, and how many candidates this counts as: there may be few
NARROWEST, WIDEST = 10, 300  # columns of a text; beyond, width says nothing
FARTHEST = 2.5  # standard deviations
MAX_LOGIT = 30.0
TINY = 1e-12
BINS = 10  # of equal mass
READ_CHARS = 60  # of a text, to tell its script

KANA = {"HIRAGANA", "KATAKANA"}
SIZES = ("size", "width")
DENSE = ("cosine", "gap", "margin", "deviation", *SIZES)
HYBRID = (*DENSE[: -len(SIZES)], "comparable", "share", "lead", *SIZES)


@dataclass(frozen=True)
class Evidence:
    """What a search found for a query in words: all candidates, best cosine first.

    first: the place of the document that is best before paging, sorting and grouping.  text: of that document.
    searched: number of documents that match the filter.
    rows_N: the document index's numbers.  score_N: before what the query prefers.
    share_N: of the query's words, by rarity, that each has; None: no words were looked for.
    place_P, vectors_PD: passages of some documents, the first among them, one document's in a row; and their places.
    """

    first: int
    text: str
    query: str
    searched: int
    rows_N: Sequence[int]
    cosine_N: Floats
    score_N: Floats
    share_N: Floats | None
    place_P: npt.NDArray[np.int64]
    vectors_PD: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Weights:
    """A logistic regression over standardised features and all products of two.

    means, deviations: of the features.  coefficients: of the features, then of their products, row by row.
    """

    intercept: float
    means: tuple[float, ...]
    deviations: tuple[Annotated[float, Field(gt=0)], ...]
    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class ConfidenceModel:
    """version: 1 knows neither size nor width, 2 no width.

    different: two documents with a lower cosine are different.

    right: share of right first documents it was fitted with, of all questions.
    found: the same of the questions that have an answer.
    dense, hybrid: for searches without and with words.
    """

    version: Literal[1, 2, 3]
    different: float
    right: Annotated[float, Field(gt=0, lt=1)]
    found: Annotated[float, Field(gt=0, lt=1)]
    dense: Weights
    hybrid: Weights

    def probability(
        self, evidence: Evidence, *, answerable: float, shift: float = 0.0, scale: float = 1.0
    ) -> float | None:
        """Return the probability that the first document answers. None: there is none different to compare it with.

        answerable: expected share of questions that the documents answer.
        shift, scale: a collection's own, as `Recalibration` has them.
        """
        feature_F = features(evidence, different=self.different)
        if feature_F is None:
            return None
        return logistic(shift + scale * self.log_odds(feature_F) + self.prior_shift(answerable))

    def of(self, feature_F: Floats, *, answerable: float) -> float:
        """Return the probability for features, those of `DENSE` or of `HYBRID`."""
        return logistic(self.log_odds(feature_F) + self.prior_shift(answerable))

    def log_odds(self, feature_F: Floats) -> float:
        """Return the log odds for features, with as many right first documents as it was fitted with."""
        import numpy as np

        weights = self.dense if len(feature_F) == len(DENSE) else self.hybrid
        standard_F = clipped((feature_F[: len(weights.means)] - weights.means) / weights.deviations)
        return weights.intercept + float(np.dot(with_products(standard_F), weights.coefficients))

    def prior_shift(self, answerable: float) -> float:
        """Return what an expected share of questions with an answer adds to the log odds."""
        return log_odds(answerable * self.found) - log_odds(self.right)


def features(evidence: Evidence, *, different: float) -> Floats | None:
    """Return (F,), those of `DENSE`, with words those of `HYBRID`. None: no candidate is different from the first."""
    import numpy as np

    cosine_N, score_N, first = evidence.cosine_N, evidence.score_N, evidence.first
    next_K = np.flatnonzero(_likeness(evidence) < different)[:NEXT]
    if not len(next_K):
        return None
    usual_N = cosine_N[:NEAREST]
    squares = len(usual_N) * float(usual_N.var()) + USUAL_WEIGHT * USUAL_SPREAD**2
    spread = math.sqrt(squares / (len(usual_N) + USUAL_WEIGHT))
    cosine = float(cosine_N[first])
    found = [
        cosine,
        cosine - float(cosine_N[next_K].mean()),
        float(score_N[first]) - float(score_N[next_K].max()),
        (cosine - float(usual_N.mean())) / spread,
    ]
    if evidence.share_N is not None:
        share, share_K = float(evidence.share_N[first]), evidence.share_N[next_K]
        comparable = float(script_of(evidence.query) == script_of(evidence.text))
        found += [comparable, comparable * share, comparable * (share - float(share_K.mean()))]
    width = min(max(width_of(evidence.text, most=WIDEST), NARROWEST), WIDEST)
    return np.array([*found, math.log10(max(evidence.searched, 1)), math.log10(width)])


def _likeness(evidence: Evidence) -> Floats:
    """Return the cosine of each document with the first, (N,); -1 where no vector is known."""
    import numpy as np

    likeness_N = np.full(len(evidence.cosine_N), -1.0)
    place_M, sum_MD = evidence.place_P, evidence.vectors_PD
    if len(set(place_M.tolist())) < len(place_M):  # some have several passages
        start_M = np.flatnonzero(np.diff(place_M, prepend=-1))
        place_M, sum_MD = place_M[start_M], np.add.reduceat(sum_MD, start_M, axis=0)
    first_D = sum_MD[place_M == evidence.first].sum(axis=0)
    norm_M = np.linalg.norm(sum_MD, axis=1) * np.linalg.norm(first_D)
    likeness_N[place_M] = sum_MD @ first_D / np.maximum(norm_M, TINY)
    likeness_N[evidence.first] = 1
    return likeness_N


def clipped(standard_F: Floats) -> Floats:
    """Return standardised features without what was hardly fitted."""
    return standard_F.clip(-FARTHEST, FARTHEST)


def with_products(standard_F: Floats) -> Floats:
    """Return features and all products of two, (F + P,)."""
    import numpy as np

    row_P, column_P = _pairs(len(standard_F))
    return np.concatenate([standard_F, standard_F[row_P] * standard_F[column_P]])


@cache
def _pairs(count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    import numpy as np

    return np.triu_indices(count)


def logistic(log_odds: float) -> float:
    """Return the probability of log odds."""
    return 1 / (1 + math.exp(-min(max(log_odds, -MAX_LOGIT), MAX_LOGIT)))


def log_odds(share: float) -> float:
    """Return the logarithm of a share's odds."""
    return math.log(share / (1 - share))


def script_of(text: str) -> str:
    """Return the script of most letters, in Unicode's words; kana are Japanese whatever else there is."""
    letters = filter(str.isalpha, text[:READ_CHARS])
    scripts = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
    return "JAPANESE" if KANA & scripts.keys() else max(scripts, key=lambda name: scripts[name], default="")


def width_of(text: str, *, most: int) -> int:
    """Return the columns of a text's first `most` characters; letters of Han, kana and Hangul take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text[:most])


def calibration_error(probability_Q: Floats, is_right_Q: npt.NDArray[np.bool_], weight_Q: Floats) -> float:
    """Return the expected difference of probability and share in bins of equal mass."""
    return sum(abs(mass * (said - true)) for mass, said, true in reliability(probability_Q, is_right_Q, weight_Q))


def reliability(
    probability_Q: Floats, is_right_Q: npt.NDArray[np.bool_], weight_Q: Floats
) -> list[tuple[float, float, float]]:
    """Return mass, mean probability and share of right documents of each bin."""
    import numpy as np

    order_Q = np.argsort(probability_Q, kind="stable")
    probability_Q, is_right_Q = probability_Q[order_Q], is_right_Q[order_Q]
    weight_Q = weight_Q[order_Q] / weight_Q.sum()
    bin_Q = np.minimum((BINS * (np.cumsum(weight_Q) - weight_Q / 2)).astype(int), BINS - 1)
    bins = []
    for number in np.unique(bin_Q):
        inside_Q = bin_Q == number
        mass = float(weight_Q[inside_Q].sum())
        said, true = (
            np.average(values_Q[inside_Q], weights=weight_Q[inside_Q]) for values_Q in (probability_Q, is_right_Q)
        )
        bins.append((mass, float(said), float(true)))
    return bins
