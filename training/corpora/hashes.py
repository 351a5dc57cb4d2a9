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
        in_order = np.argsort(first)  # numbers follow the stream's order
        rank = np.empty_like(in_order)
        rank[in_order] = np.arange(len(in_order))
        numbers, is_new = self._add_distinct(distinct[in_order])
        first_seen = np.zeros(len(hashes), dtype=np.bool_)
        first_seen[first[in_order][is_new]] = True
        return numbers[rank[inverse]], first_seen

    def _add_distinct(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        numbers = self._find(hashes)
        is_new = numbers == EMPTY
        fresh = hashes[is_new]
        numbers[is_new] = np.arange(self._count, self._count + len(fresh), dtype=np.int32)
        self._append(fresh)
        if 3 * self._count > 2 * len(self._slots):
            self._grow()
        else:
            self._place(fresh, numbers[is_new])
        return numbers, is_new

    def _find(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Find the number of each hash, or EMPTY: linear probing, vectorised over all hashes."""
        numbers = np.full(len(hashes), EMPTY, dtype=np.int32)
        waiting = np.arange(len(hashes))
        slots = self._home(hashes)
        while len(waiting):
            found = self._slots[slots]
            is_match = (found != EMPTY) & (self._keys[found] == hashes[waiting])
            numbers[waiting[is_match]] = found[is_match]
            goes_on = (found != EMPTY) & ~is_match
            waiting, slots = waiting[goes_on], (slots[goes_on] + 1) % len(self._slots)
        return numbers

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

    def _append(self, hashes: NDArray[np.uint64]) -> None:
        count = self._count + len(hashes)
        if count > len(self._keys):
            self._keys.resize(max(count, len(self._keys) * 3 // 2), refcheck=False)
        self._keys[self._count : count] = hashes
        self._count = count

    def _grow(self) -> None:
        """Double the slots until the keys fit and refill them; the old ones are freed first."""
        slots = len(self._slots)
        while 3 * self._count > 2 * slots:
            slots *= 2
        self._slots = np.empty(0, dtype=np.int32)
        self._slots = np.full(slots, EMPTY, dtype=np.int32)
        for start in range(0, self._count, FIRST_SLOTS):
            stop = min(start + FIRST_SLOTS, self._count)
            self._place(self._keys[start:stop], np.arange(start, stop, dtype=np.int32))
