"""Embeddings on disk, keyed by a hash of their text: two append-only files, memory-mapped.

Shapes: N texts, D dims of the sentence embedding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16  # of BLAKE2b: two of 10^9 texts share a key with a probability of 10^-21
WINDOW = 65_536  # texts looked up together

Keys = NDArray[np.bytes_]


class EmbeddingStore:
    """The embeddings of one model; each folder belongs to one model.

    A kill between the two writes leaves a vector without its key; opening the store cuts it off. Memory: 24 bytes a text
    (its key and row), twice that while two parts are merged. Vectors stay on disk.
    """

    def __init__(self, folder: Path, *, dim: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.dim = dim
        self._keys_path, self._vectors_path = folder / "keys.bin", folder / "vectors.f32"
        self._keys_path.touch()
        self._vectors_path.touch()
        self._count = min(self._keys_path.stat().st_size // KEY_BYTES, self._vectors_path.stat().st_size // (4 * dim))
        with self._keys_path.open("r+b") as keys, self._vectors_path.open("r+b") as vectors:
            keys.truncate(self._count * KEY_BYTES)
            vectors.truncate(self._count * 4 * dim)
        self._parts: list[tuple[Keys, NDArray[np.int64]]] = []  # sorted by key, each at least twice as long as the next
        if self._count:
            self._add(np.fromfile(self._keys_path, dtype=f"S{KEY_BYTES}"), first_row=0)

    def __len__(self) -> int:
        return self._count

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Those of `texts` that the store lacks, each once, in order."""
        distinct = list(dict.fromkeys(texts))
        return [text for text, row in zip(distinct, self.rows(distinct), strict=True) if row < 0]

    def append(self, texts: list[str], vectors_ND: NDArray[np.float32]) -> None:
        """Add texts that the store lacks."""
        keys = _keys(texts)
        with self._vectors_path.open("ab") as vectors:
            vectors.write(np.ascontiguousarray(vectors_ND, dtype=np.float32).tobytes())
        with self._keys_path.open("ab") as file:
            file.write(keys.tobytes())
        self._add(keys, first_row=self._count)
        self._count += len(texts)

    def rows(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """The row of each text, (N,); -1: the store lacks it."""
        found = [self._find(_keys(window)) for window in windows(texts, WINDOW)]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])

    def vectors(self) -> NDArray[np.float32]:
        """All rows, memory-mapped: (N, D)."""
        return np.memmap(self._vectors_path, dtype=np.float32, mode="r", shape=(self._count, self.dim))

    def _add(self, keys: Keys, *, first_row: int) -> None:
        rows = np.arange(first_row, first_row + len(keys))
        while self._parts and len(self._parts[-1][0]) < 2 * len(keys):  # keeps parts few: log2 of the number of texts
            last_keys, last_rows = self._parts.pop()
            keys, rows = np.concatenate([last_keys, keys]), np.concatenate([last_rows, rows])
        order = np.argsort(keys, kind="stable")
        self._parts.append((keys[order], rows[order]))

    def _find(self, keys: Keys) -> NDArray[np.int64]:
        found = np.full(len(keys), -1, dtype=np.int64)
        for sorted_keys, rows in self._parts:
            place = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
            is_here = sorted_keys[place] == keys
            found[is_here] = rows[place[is_here]]
        return found


def windows(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """`texts` in lists of `size`; the last may be shorter."""
    stream = iter(texts)
    while window := list(islice(stream, size)):
        yield window


def _keys(texts: list[str]) -> Keys:
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest() for text in texts)
    return np.frombuffer(digests, dtype=f"S{KEY_BYTES}")
