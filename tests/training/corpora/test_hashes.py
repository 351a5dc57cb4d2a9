import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.cleaning.hashes import FIRST_SLOTS, HashIndex, hash_keys


@given(st.lists(st.lists(st.integers(0, 50), max_size=30), max_size=8))
def test_hashes_are_numbered_as_a_dictionary_numbers_them(batches: list[list[int]]) -> None:
    index, expected = HashIndex(), dict[int, int]()
    for batch in batches:
        numbers, is_new = index.add(np.array(batch, dtype=np.uint64))
        for value, number, new in zip(batch, numbers, is_new, strict=True):
            assert new == (value not in expected)
            assert number == expected.setdefault(value, len(expected))
    assert len(index) == len(expected)


def test_a_growing_index_keeps_colliding_hashes_apart() -> None:
    index, count = HashIndex(), 3 * FIRST_SLOTS
    crowded = np.arange(count, dtype=np.uint64) * np.uint64(FIRST_SLOTS // 64)  # 64 homes among the first slots
    hashes = np.concatenate(
        [crowded[:500], np.random.default_rng(0).integers(1 << 62, 1 << 63, count, dtype=np.uint64)]
    )
    for start in range(0, len(hashes), 10_000):
        numbers, is_new = index.add(hashes[start : start + 10_000])
        assert is_new.all()
        assert np.array_equal(numbers, np.arange(start, start + len(numbers)))
    again, is_new = index.add(hashes[::-1])
    assert not is_new.any()
    assert np.array_equal(again, np.arange(len(hashes))[::-1])


def test_a_key_has_one_hash_in_every_process() -> None:
    assert hash_keys(["a", "b", "a"]).tolist() == [hash_keys([key])[0] for key in "aba"]
    assert hash_keys(["crosslet"]).tobytes().hex() == "8c6f45b5ab5bd8f1"  # b2sum -l 64
    assert len(set(hash_keys(map(str, range(10_000))).tolist())) == 10_000


def test_an_index_takes_at_most_24_bytes_a_key() -> None:
    generator = np.random.default_rng(0)
    tracemalloc.start()
    index, worst = HashIndex(), 0.0
    for _ in range(100):
        index.add(generator.integers(0, 1 << 63, 10_000, dtype=np.uint64))
        worst = max(worst, tracemalloc.get_traced_memory()[0] / max(len(index), FIRST_SLOTS))
    tracemalloc.stop()
    assert worst <= 24.5  # and 0.5 for what does not grow
