"""Semantic textual similarity: Spearman correlation of cosine and human score, per language pair."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

Encode = Callable[[list[str]], NDArray[np.float32]]  # texts -> (N, D), any length


def read_sts(path: Path) -> tuple[list[float], list[str], list[str]]:
    """Gold scores and both sides of a `score<TAB>sentence1<TAB>sentence2` file."""
    with path.open(encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    scores, left, right = zip(*rows, strict=True)
    return [float(score) for score in scores], list(left), list(right)


def spearman_of_cosines(left_ND: NDArray[np.float32], right_ND: NDArray[np.float32], gold_N: list[float]) -> float:
    """Spearman's rho x 100 between row-wise cosine and gold."""
    cosine_N = (unit_rows(left_ND) * unit_rows(right_ND)).sum(axis=1)
    return float(spearmanr(cosine_N, gold_N).statistic) * 100


def unit_rows(matrix_ND: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows at unit length."""
    norms = np.linalg.norm(matrix_ND, axis=1, keepdims=True).astype(np.float32)
    unit_ND: NDArray[np.float32] = matrix_ND / np.maximum(norms, np.float32(1e-12))
    return unit_ND


def evaluate_sts(encode: Encode, folder: Path, pairs: list[str]) -> dict[str, float]:
    """Score of each `xx-yy` in `pairs` that has a file in `folder`."""
    scores = {}
    for pair in pairs:
        path = folder / f"{pair}.tsv"
        if path.is_file():
            gold, left, right = read_sts(path)
            scores[pair] = round(spearman_of_cosines(encode(left), encode(right), gold), 2)
    return scores
