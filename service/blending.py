"""Fuses a score with that of a re-ranker, which moves it towards 1."""

from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", float, npt.NDArray[np.float64])
Weight = float | Literal["alone"]  # of a re-ranker: `CROSSLET_RERANK_WEIGHT`


def raised(score: T, share: T) -> T:
    """Return the score moved by a share in [0, 1] of its way to 1. Takes numbers or arrays."""
    return score + share * (1 - score)


def with_reranker(score: T, reranker_score: T, weight: Weight) -> T:
    """Return a score raised by a re-ranker's in [0, 1]; "alone": the re-ranker's. Takes numbers or arrays."""
    return reranker_score if isinstance(weight, str) else raised(score, weight * reranker_score)
