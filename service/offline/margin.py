"""Scores sentence pairs of two texts by margin and selects the best (Artetxe & Schwenk 2019).

Paper: arXiv:1811.01136, "Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings".

Sentences of equal vectors are one to the margin: copies would take the places of a sentence's other neighbours.

N left sentences, M right sentences, U different ones of a side, K neighbours
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

NEIGHBOURS = 4  # k of the paper, and of LASER's xsim and BUCC scripts

Mined = tuple[float, int, int]  # margin, left row, right row


@dataclass(frozen=True)
class Neighbours:
    """The nearest sentences of the other text to each sentence, best first: cosines and rows, both (N, K)."""

    cosines_NK: npt.NDArray[np.float32]
    rows_NK: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Margins:
    """The best partner of every sentence and its margin, in both directions."""

    right_of_left_N: npt.NDArray[np.int64]
    margin_of_left_N: npt.NDArray[np.float32]
    left_of_right_M: npt.NDArray[np.int64]
    margin_of_right_M: npt.NDArray[np.float32]


def different(vectors_ND: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first row of each different vector, (U,) in order, and each row's place among them, (N,).

    Memory: some 150 bytes a row.
    """
    first: dict[bytes, int] = {}
    digests = (blake2b(vector_D.tobytes(), digest_size=16).digest() for vector_D in vectors_ND)
    first_N = np.fromiter((first.setdefault(one, row) for row, one in enumerate(digests)), np.int64, len(vectors_ND))
    row_U, place_N = np.unique(first_N, return_inverse=True)
    return row_U, place_N


def ratio_margins(left: Neighbours, right: Neighbours) -> Margins:
    """Divide cos(x, y) by the mean cosine of x and y with their k nearest: Eq. (2) of the paper, "ratio".

    Partners come from the k nearest, as in LASER. Where the mean is not positive, nothing is similar: the margin is 0.
    """
    mean_N, mean_M = left.cosines_NK.mean(axis=1), right.cosines_NK.mean(axis=1)
    margin_NK = _ratio(left.cosines_NK, (mean_N[:, None] + mean_M[left.rows_NK]) / 2)
    margin_MK = _ratio(right.cosines_NK, (mean_M[:, None] + mean_N[right.rows_NK]) / 2)
    best_N, best_M = margin_NK.argmax(axis=1), margin_MK.argmax(axis=1)
    row_N, row_M = np.arange(len(best_N)), np.arange(len(best_M))
    return Margins(
        right_of_left_N=left.rows_NK[row_N, best_N],
        margin_of_left_N=margin_NK[row_N, best_N],
        left_of_right_M=right.rows_NK[row_M, best_M],
        margin_of_right_M=margin_MK[row_M, best_M],
    )


def near_pairs(near: Neighbours, *, margin: float, cosine: float) -> npt.NDArray[np.int64]:
    """Return the pairs of one text's rows with at least that margin and cosine, (P, 2), the later row first, in order.

    The margin of a pair is its cosine over the mean cosine of both rows with the farther half of their neighbours.

    near: of each row the nearest others of the same text.
    """
    mean_N = near.cosines_NK[:, near.cosines_NK.shape[1] // 2 :].mean(axis=1)
    margin_NK = _ratio(near.cosines_NK, (mean_N[:, None] + mean_N[near.rows_NK]) / 2)
    row_P, place_P = np.nonzero((margin_NK >= margin) & (near.cosines_NK >= cosine))
    pair_P2 = np.stack([row_P, near.rows_NK[row_P, place_P]], axis=1)
    return np.unique(np.sort(pair_P2, axis=1)[:, ::-1], axis=0)


def mine(margins: Margins, left_place_N: npt.NDArray[np.int64], right_place_M: npt.NDArray[np.int64]) -> list[Mined]:
    """Select pairs greedily from both directions: (margin, left row, right row), best first, each row once.

    margins: of the different sentences.  left_place_N, right_place_M: each row's place among them, as `different` gives
    it. The copies of a sentence take those of its partner in order; copies that are left over may take the next best.
    """
    places_U, places_V = np.arange(len(margins.right_of_left_N)), np.arange(len(margins.left_of_right_M))
    left = np.concatenate([places_U, margins.left_of_right_M])
    right = np.concatenate([margins.right_of_left_N, places_V])
    margin = np.concatenate([margins.margin_of_left_N, margins.margin_of_right_M])
    order = np.lexsort((right, left, -margin))
    left_rows, right_rows = _Rows(left_place_N), _Rows(right_place_M)
    mined = []
    for pair in zip(margin[order].tolist(), left[order].tolist(), right[order].tolist(), strict=True):
        count = min(left_rows.unused(pair[1]), right_rows.unused(pair[2]))
        rows = zip(left_rows.use(pair[1], count), right_rows.use(pair[2], count), strict=True)
        mined += [(pair[0], left_row, right_row) for left_row, right_row in rows]
    return mined


class _Rows:
    """The rows of each different sentence, in order, and how many of them are used."""

    def __init__(self, place_N: npt.NDArray[np.int64]) -> None:
        self._row_N = np.argsort(place_N, kind="stable").tolist()
        self._stop_U = np.cumsum(np.bincount(place_N)).tolist()
        self._next_U = [0, *self._stop_U[:-1]]

    def unused(self, place: int) -> int:
        return int(self._stop_U[place] - self._next_U[place])

    def use(self, place: int, count: int) -> list[int]:
        start = self._next_U[place]
        self._next_U[place] += count
        rows: list[int] = self._row_N[start : start + count]
        return rows


def _ratio(cosine: npt.NDArray[np.float32], mean: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    margin: npt.NDArray[np.float32] = np.divide(cosine, mean, out=np.zeros_like(cosine), where=mean > 0)
    return margin
