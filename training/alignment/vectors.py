"""The vectors of all texts of a run, each text encoded once, with progress. Knows texts; knows no pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from training.alignment.layers import Vectors
from training.errors import AlignmentError
from training.evaluation.vectors import Encode

CHUNK = 512  # texts between two steps of the bar


class Known:
    """Remembers vectors of texts; (N, D) float32 as the model gives them."""

    def __init__(self, encode: Encode, name: str = "vectors") -> None:
        """name: of its bars."""
        self._encode = encode
        self._name = name
        self._vectors: dict[str, Vectors] = {}

    def learn(self, texts: Sequence[str]) -> None:
        """Encode what is new, with a bar.

        Raises: AlignmentError: a vector is not finite.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        with tqdm(total=len(new), desc=self._name, unit="text", disable=not new) as bar:
            for start in range(0, len(new), CHUNK):
                chunk = new[start : start + CHUNK]
                vectors_ND = self._encode(chunk)
                if not np.isfinite(vectors_ND).all():
                    raise AlignmentError("the model gives vectors that are not finite numbers; it cannot be aligned")
                self._vectors.update(zip(chunk, vectors_ND, strict=True))
                bar.update(len(chunk))

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """In the order of the texts."""
        self.learn(texts)
        return np.stack([self._vectors[text] for text in texts])
