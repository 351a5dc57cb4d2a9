"""Numbers the distinct keys of a stream, in a few bytes each, by their hashes.

Among n keys two share a 64-bit hash with probability n^2 / 2^65: 3 in 10,000 for 100 million keys. The later key is
then taken for the earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

FIRST_SLOTS = 1 << 16
EMPTY = -1


def hash_keys(keys: Iterable[str]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each key, the same in every process."""
    digests = b"".join(blake2b(key.encode(), digest_size=8).digest() for key in keys)
    return np.frombuffer(digests, dtype=np.uint64)


class HashIndex:
    """Numbers distinct hashes in order of first appearance.

    Like Python's dict, a dense array of keys and a sparse table of indices into it, but in numpy. Keys take 8 bytes,
    with up to half as much reserved for growth; slots take 4 bytes, a third to two thirds of them used. That makes at
    most 24 bytes a key.
    """

    def __init__(self) -> None:
        self._keys = np.empty(FIRST_SLOTS // 2, dtype=np.uint64)
        self._count = 0
        self._slots = np.full(FIRST_SLOTS, EMPTY, dtype=np.int32)

    def __len__(self) -> int:
        return self._count

    def add(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Number each hash.

        Returns: the number of each, int32, and whether this is its first appearance.
        """
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        numbers = self._find(distinct)
        new = np.flatnonzero(numbers == EMPTY)
        new = new[np.argsort(first[new])]  # numbers follow the stream's order
        numbers[new] = np.arange(self._count, self._count + len(new), dtype=np.int32)
        self._append(distinct[new], numbers[new])
        is_first = np.zeros(len(hashes), dtype=np.bool_)
        is_first[first[new]] = True
        return numbers[inverse], is_first

    def _find(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Find the number of each hash, or EMPTY: linear probing, vectorised over all hashes."""
        numbers = np.full(len(hashes), EMPTY, dtype=np.int32)
        waiting = np.arange(len(hashes))
        slots = self._home(hashes)
        while len(waiting):
            stored = self._slots[slots]
            is_match = (stored != EMPTY) & (self._keys[stored] == hashes[waiting])
            numbers[waiting[is_match]] = stored[is_match]
            goes_on = (stored != EMPTY) & ~is_match
            waiting, slots = waiting[goes_on], (slots[goes_on] + 1) % len(self._slots)
        return numbers

    def _append(self, hashes: NDArray[np.uint64], numbers: NDArray[np.int32]) -> None:
        """Store new keys. Where the slots fill up, double them and refill them; the old ones are freed first."""
        count = self._count + len(hashes)
        if count > len(self._keys):
            self._keys.resize(max(count, len(self._keys) * 3 // 2), refcheck=False)
        self._keys[self._count : count] = hashes
        self._count = count
        slots = len(self._slots)
        if 3 * count <= 2 * slots:
            self._place(hashes, numbers)
            return
        while 3 * count > 2 * slots:
            slots *= 2
        self._slots = np.empty(0, dtype=np.int32)
        self._slots = np.full(slots, EMPTY, dtype=np.int32)
        for start in range(0, count, FIRST_SLOTS):
            stop = min(start + FIRST_SLOTS, count)
            self._place(self._keys[start:stop], np.arange(start, stop, dtype=np.int32))

    def _place(self, hashes: NDArray[np.uint64], numbers: NDArray[np.int32]) -> None:
        """Put each new hash into the first free slot from its home on; where several compete, the last written wins."""
        slots = self._home(hashes)
        while len(numbers):
            is_free = self._slots[slots] == EMPTY
            self._slots[slots[is_free]] = numbers[is_free]
            goes_on = self._slots[slots] != numbers
            numbers, slots = numbers[goes_on], (slots[goes_on] + 1) % len(self._slots)

    def _home(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        return (hashes % np.uint64(len(self._slots))).astype(np.int64)
