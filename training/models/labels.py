"""What the student is to say of an English text: one teacher's embedding, or those of several, side by side.

Knows vectors; knows no model and no text.

Shapes: N texts, D_i dims of a teacher, D of the label
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
    """How the embeddings of teachers become a label: each less its mean, at unit length, side by side, then turned.

    The label has unit length. A cosine of two labels is the mean of the teachers' cosines, but for what lies outside
    the D directions that are kept.

    Args: means: of each teacher, (D_i,); zeros leave its embeddings where they are.  basis_TD: orthonormal columns;
          T is the sum of the D_i.
    """

    means: list[Vectors]
    basis_TD: Vectors

    @classmethod
    def fit(cls, samples: Sequence[Vectors], *, dim: int, centred: bool) -> LabelSpace:
        """The D directions in which the teachers' embeddings of some texts, (N, D_i) each, are longest."""
        means = [sample.mean(axis=0) * centred for sample in samples]
        joined_NT = _side_by_side(samples, means).astype(np.float64)
        _, basis_TT = np.linalg.eigh(joined_NT.T @ joined_NT)  # ascending
        return cls(means, basis_TT[:, : -dim - 1 : -1].astype(np.float32))

    def turned_to(self, samples: Sequence[Vectors], embedding_ND: Vectors) -> LabelSpace:
        """The same cosines, labels as near as they can be to what a model says already: orthogonal Procrustes."""
        left, _, right = np.linalg.svd(self(samples).astype(np.float64).T @ embedding_ND.astype(np.float64))
        return LabelSpace(self.means, self.basis_TD @ (left @ right).astype(np.float32))

    def __call__(self, vectors: Sequence[Vectors]) -> Vectors:
        """Labels of embeddings, (N, D_i) each: (N, D)."""
        return _at_unit_length(_side_by_side(vectors, self.means) @ self.basis_TD)

    def write(self, vectors: Sequence[Vectors], rows: Sequence[NDArray[np.int64]], path: Path) -> None:
        """Labels of these rows of each teacher's embeddings, kept on disk: N x D numbers, end to end."""
        with ArrayWriter(path, np.float32) as file:
            for start in range(0, len(rows[0]), CHUNK):
                chunk = [own[row[start : start + CHUNK]] for own, row in zip(vectors, rows, strict=True)]
                file.append(self(chunk).reshape(-1))

    def save(self, path: Path) -> None:
        """Write a `.npz`."""
        np.savez(path, self.basis_TD, *self.means)

    @classmethod
    def load(cls, path: Path) -> LabelSpace:
        """Read it back."""
        basis_TD, *means = np.load(path).values()
        return cls(means, basis_TD)


def linear_fit(input_NH: Vectors, label_ND: Vectors, *, ridge: float) -> tuple[Vectors, Vectors]:
    """The affine map by ridge regression: weight (D, H) and bias (D,). `ridge`: in mean squares of an input."""
    mean_H, mean_D = input_NH.mean(axis=0, dtype=np.float64), label_ND.mean(axis=0, dtype=np.float64)
    input64_NH = input_NH - mean_H
    gram_HH = input64_NH.T @ input64_NH
    penalty = ridge * np.trace(gram_HH) / len(gram_HH)
    weight_HD = np.linalg.solve(gram_HH + penalty * np.eye(len(gram_HH)), input64_NH.T @ (label_ND - mean_D))
    return weight_HD.T.astype(np.float32), (mean_D - mean_H @ weight_HD).astype(np.float32)


def _side_by_side(vectors: Sequence[Vectors], means: Sequence[Vectors]) -> Vectors:
    """Each teacher's at unit length, all of them together at unit length, too: (N, T)."""
    parts = [_at_unit_length(own - mean) for own, mean in zip(vectors, means, strict=True)]
    return np.concatenate(parts, axis=1) / np.float32(np.sqrt(len(parts)))


def _at_unit_length(vector_ND: Vectors) -> Vectors:
    length_N1 = np.linalg.norm(vector_ND, axis=1, keepdims=True)
    unit_ND: Vectors = vector_ND / np.maximum(length_N1, np.finfo(np.float32).tiny)
    return unit_ND
