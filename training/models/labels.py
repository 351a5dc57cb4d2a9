"""The label of an English text: one teacher's embedding, or several teachers' embeddings combined.

Shapes: N texts, D_i dims of a teacher, T the sum of all D_i, D dims of the label
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.system.arrays import ArrayWriter

Vectors = NDArray[np.float32]
CHUNK = 16_384  # texts at once


@dataclass(frozen=True)
class LabelSpace:
    """Makes labels: each teacher's embedding minus its mean, normalised, concatenated, then projected to D dims.

    Labels have unit length. The cosine of two labels is the mean of the teachers' cosines, up to what the projection
    drops.

    Args: means: of each teacher, (D_i,), or zeros.  basis_TD: orthonormal columns.
    """

    means: list[Vectors]
    basis_TD: Vectors

    @classmethod
    def fit(cls, samples: Sequence[Vectors], *, dim: int, centred: bool) -> LabelSpace:
        """Fit to samples, (N, D_i) each: keep the D directions with the largest mean square."""
        means = [sample.mean(axis=0) * centred for sample in samples]
        joined_NT = _side_by_side(samples, means).astype(np.float64)
        _, basis_TT = np.linalg.eigh(joined_NT.T @ joined_NT)  # ascending
        return cls(means, basis_TT[:, : -dim - 1 : -1].astype(np.float32))

    def turned_to(self, samples: Sequence[Vectors], embedding_ND: Vectors) -> LabelSpace:
        """Rotate labels as near as possible to a model's embeddings; cosines stay (orthogonal Procrustes)."""
        left, _, right = np.linalg.svd(self(samples).astype(np.float64).T @ embedding_ND.astype(np.float64))
        return LabelSpace(self.means, self.basis_TD @ (left @ right).astype(np.float32))

    def __call__(self, vectors: Sequence[Vectors]) -> Vectors:
        """Labels, (N, D), of the teachers' embeddings, (N, D_i) each."""
        return _at_unit_length(_side_by_side(vectors, self.means) @ self.basis_TD)

    def write(self, vectors: Sequence[Vectors], rows: Sequence[NDArray[np.int64]], path: Path) -> None:
        """Write the labels of these rows of each teacher's embeddings: N x D float32, flat."""
        with ArrayWriter(path, np.float32) as file:
            for start in range(0, len(rows[0]), CHUNK):
                chunk = [own[row[start : start + CHUNK]] for own, row in zip(vectors, rows, strict=True)]
                file.append(self(chunk).reshape(-1))

    def save(self, path: Path) -> None:
        """Write a `.npz` file."""
        np.savez(path, self.basis_TD, *self.means)

    @classmethod
    def load(cls, path: Path) -> LabelSpace:
        """Read what `save` wrote."""
        basis_TD, *means = np.load(path).values()
        return cls(means, basis_TD)


def linear_fit(input_NH: Vectors, label_ND: Vectors, *, ridge: float) -> tuple[Vectors, Vectors]:
    """Affine map by ridge regression: weight (D, H), bias (D,). `ridge`: penalty, in mean squares of an input."""
    mean_H, mean_D = input_NH.mean(axis=0, dtype=np.float64), label_ND.mean(axis=0, dtype=np.float64)
    input64_NH = input_NH - mean_H
    gram_HH = input64_NH.T @ input64_NH
    penalty = ridge * np.trace(gram_HH) / len(gram_HH)
    weight_HD = np.linalg.solve(gram_HH + penalty * np.eye(len(gram_HH)), input64_NH.T @ (label_ND - mean_D))
    return weight_HD.T.astype(np.float32), (mean_D - mean_H @ weight_HD).astype(np.float32)


def _side_by_side(vectors: Sequence[Vectors], means: Sequence[Vectors]) -> Vectors:
    """The teachers' embeddings, each normalised, concatenated to unit length: (N, T)."""
    parts = [_at_unit_length(own - mean) for own, mean in zip(vectors, means, strict=True)]
    return np.concatenate(parts, axis=1) / np.float32(np.sqrt(len(parts)))


def _at_unit_length(vector_ND: Vectors) -> Vectors:
    length_N1 = np.linalg.norm(vector_ND, axis=1, keepdims=True)
    unit_ND: Vectors = vector_ND / np.maximum(length_N1, np.finfo(np.float32).tiny)
    return unit_ND
