"""Caches the vectors of recent texts within a memory limit. Keys are hashes; texts are not kept.

D dims
"""

import hashlib
import struct
import threading
from collections import OrderedDict

import numpy as np

from service.engine.pairs import Input, PairInput
from service.model.encoder import Encoded, TextInput

KEY_BYTES = 16
HEADER = struct.Struct("<II")  # tokens, full_length; the D float32 of the vector follow
# CPython's memory for an entry beside its value: two bytes objects (33 each, before rounding), the key, a node of the
# order, and a slot of a hash table that has, at worst, just grown. `test_cache.py` compares it with tracemalloc.
ENTRY_OVERHEAD_BYTES = 320


class VectorCache:
    """A least-recently-used cache. Thread-safe; every call takes constant time.

    A key is the text's BLAKE2b hash, keyed by the model's fingerprint. Vectors are returned bit for bit.
    """

    def __init__(self, max_bytes: int, *, fingerprint: str, dim: int) -> None:
        """max_bytes: limit on memory; 0 = no cache."""
        self._entry_bytes = HEADER.size + 4 * dim + ENTRY_OVERHEAD_BYTES
        self._max_entries = max_bytes // self._entry_bytes
        self._salt = hashlib.blake2b(fingerprint.encode(), digest_size=64).digest()
        self._values: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    @property
    def size_bytes(self) -> int:
        """Memory of the entries."""
        return len(self._values) * self._entry_bytes

    def __len__(self) -> int:
        return len(self._values)

    def get(self, text: Input, *, truncate: bool) -> Encoded | None:
        """Return the vector of a text, or None. A truncated one is a miss when truncate=False; pairs are not kept."""
        if not self._max_entries or isinstance(text, PairInput):
            return None
        key = self._key(text)
        with self._lock:
            value = self._values.get(key)
            encoded = None
            if value is not None:
                vector_D = np.frombuffer(value, np.float32, offset=HEADER.size)
                encoded = Encoded(vector_D, *HEADER.unpack_from(value))
            if encoded is None or (encoded.truncated and not truncate):
                self.misses += 1
                return None
            self._values.move_to_end(key)
            self.hits += 1
            return encoded

    def put(self, text: Input, encoded: Encoded) -> None:
        """Store a vector; if the cache is full, evict the least recently used one."""
        if not self._max_entries or isinstance(text, PairInput):
            return
        key, value = self._key(text), HEADER.pack(encoded.tokens, encoded.full_length) + encoded.vector.tobytes()
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._max_entries:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Empty the cache and free its memory."""
        with self._lock:
            self._values = OrderedDict()

    def _key(self, text: TextInput) -> bytes:
        # The prefix tells texts from lists of token ids.
        content = b"t" + text.encode("utf-8", "surrogatepass") if isinstance(text, str) else f"i{text}".encode()
        return hashlib.blake2b(content, digest_size=KEY_BYTES, key=self._salt).digest()
