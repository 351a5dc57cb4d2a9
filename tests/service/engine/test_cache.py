import gc
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.cache import VectorCache
from service.model.encoder import Encoded, TextInput

DIM = 8


def encoded(number: float, *, tokens: int = 3, full_length: int = 3, dim: int = DIM) -> Encoded:
    return Encoded(np.full(dim, number, np.float32), tokens, full_length)


def room_for(entries: int) -> VectorCache:
    probe = VectorCache(10**6, fingerprint="f", dim=DIM)
    probe.put("a", encoded(1))
    return VectorCache(entries * probe.size_bytes, fingerprint="f", dim=DIM)


@given(
    text=st.text() | st.lists(st.integers(0, 9)).map(tuple),
    values=st.lists(st.floats(width=32), min_size=DIM, max_size=DIM),
)
def test_what_comes_out_is_what_went_in_to_the_bit(text: TextInput, values: list[float]) -> None:
    cache = room_for(1)
    cache.put(text, Encoded(np.array(values, np.float32), 2, 7))
    found = cache.get(text, truncate=True)
    assert found is not None
    assert found.vector.tobytes() == np.array(values, np.float32).tobytes()
    assert (found.tokens, found.full_length, found.truncated) == (2, 7, True)


def test_the_text_not_asked_for_the_longest_goes_first() -> None:
    cache = room_for(2)
    for text in "ab":
        cache.put(text, encoded(1))
    assert cache.get("a", truncate=True)
    cache.put("c", encoded(1))
    assert [cache.get(text, truncate=True) is not None for text in "abc"] == [True, False, True]


def test_texts_ids_and_models_do_not_share_entries() -> None:
    cache = room_for(9)
    cache.put("(1, 2)", encoded(1))
    assert cache.get((1, 2), truncate=True) is None
    other = VectorCache(10**6, fingerprint="another model", dim=DIM)
    assert other._key("a") != cache._key("a")


def test_a_cut_vector_is_nothing_for_who_forbids_the_cut() -> None:
    cache = room_for(2)
    cache.put("cut", encoded(1, full_length=9))
    cache.put("whole", encoded(1))
    assert cache.get("cut", truncate=False) is None
    assert cache.get("whole", truncate=False) is not None


def test_without_room_nothing_is_kept_and_nothing_is_counted() -> None:
    cache = VectorCache(0, fingerprint="f", dim=DIM)
    cache.put("a", encoded(1))
    assert cache.get("a", truncate=True) is None
    assert (len(cache), cache.size_bytes, cache.hits, cache.misses) == (0, 0, 0, 0)


def test_no_text_is_kept() -> None:
    cache = room_for(1)
    cache.put("a secret of mine", encoded(1))
    assert b"secret" not in repr(cache._values).encode()


@pytest.mark.parametrize("dim", [16, 384])
@pytest.mark.parametrize("entries", [100, 1500, 6000, 11_000])  # hash tables just grown, and nearly full ones
def test_the_memory_it_says_it_takes_is_at_least_what_it_takes(dim: int, entries: int) -> None:
    vector = encoded(1, dim=dim)
    tracemalloc.start()
    try:
        cache = VectorCache(10**9, fingerprint="f", dim=dim)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(entries):
            cache.put(str(number), vector)
        gc.collect()
        taken_bytes = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken_bytes <= cache.size_bytes <= 2.5 * taken_bytes
    limited = VectorCache(cache.size_bytes // 2, fingerprint="f", dim=dim)
    for number in range(entries):
        limited.put(str(number), vector)
    assert limited.size_bytes <= cache.size_bytes // 2


def test_many_threads_at_once_keep_the_bound_and_the_counts() -> None:
    cache = room_for(50)

    def use(seed: int) -> None:
        for number in range(2000):
            text = str((number * seed) % 97)
            found = cache.get(text, truncate=True)
            assert found is None or found.vector[0] == float(text)
            cache.put(text, encoded(float(text)))

    threads = [threading.Thread(target=use, args=(seed,)) for seed in (1, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == 50
    assert cache.hits + cache.misses == 8000
