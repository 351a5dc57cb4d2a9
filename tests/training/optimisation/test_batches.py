from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.optimisation.batches import BatchStream, FixedPlan, Position, length_bucketed
from training.optimisation.optimizer import warmup_then_linear

LENGTHS = np.random.default_rng(0).integers(4, 60, size=10_000)


class Rounds:
    """A plan of rounds given whole."""

    def __init__(self, *rounds: list[int]) -> None:
        self._rounds = rounds
        self.rounds = len(rounds)

    def __len__(self) -> int:
        return sum(map(len, self._rounds))

    def round(self, index: int) -> np.ndarray:
        return np.array(self._rounds[index], dtype=np.int64)


def stream(plan: Rounds | FixedPlan, **changes: object) -> BatchStream:
    lengths_of: Callable[[np.ndarray], np.ndarray] = lambda pairs: LENGTHS[pairs]  # noqa: E731
    return BatchStream(plan, lengths_of, **{"batch_size": 8, "seed": 1, "epoch_pairs": 100, **changes})  # type: ignore[arg-type]


def padded_tokens(batches: list[np.ndarray]) -> int:
    return sum(2 * len(batch) * int(LENGTHS[batch].max()) for batch in batches)


@given(count=st.integers(1, 300), batch_size=st.integers(2, 40))
def test_every_pair_of_a_round_is_in_one_batch(count: int, batch_size: int) -> None:
    pairs = np.random.default_rng(count).permutation(10_000)[:count]
    batches = length_bucketed(pairs, LENGTHS[pairs], batch_size, seed=1)
    assert sorted(np.concatenate(batches)) == sorted(pairs)
    assert all(len(batch) > 1 for batch in batches) or count == 1


def test_batches_are_of_similar_length_and_in_random_order() -> None:
    batches = length_bucketed(np.arange(3_200), LENGTHS[:3_200], 32, seed=1)
    unsorted = [np.arange(start, start + 32) for start in range(0, 3_200, 32)]
    assert padded_tokens(batches) < 0.65 * padded_tokens(unsorted)
    means = [LENGTHS[batch].mean() for batch in batches]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


@pytest.mark.parametrize("count", [60, 77, 100, 125])
def test_unbucketed_batches_are_as_drawn(count: int) -> None:
    drawn = np.random.default_rng(3).permutation(32 * count)
    batches = stream(FixedPlan(drawn), batch_size=32, bucketed=False).round(0)
    unsorted = {tuple(drawn[start : start + 32]) for start in range(0, 32 * count, 32)}
    assert {tuple(batch) for batch in batches} == unsorted
    assert padded_tokens(batches) > 1.5 * padded_tokens(stream(FixedPlan(drawn), batch_size=32).round(0))


def test_a_stream_goes_on_from_any_position() -> None:
    rounds = [np.random.default_rng(seed).permutation(10_000)[:60].tolist() for seed in range(3)]
    whole = list(stream(Rounds(*rounds)).starting_at(Position()))
    for number, (_, after) in enumerate(whole):
        rest = list(stream(Rounds(*rounds)).starting_at(after))
        assert [batch.tolist() for batch, _ in rest] == [batch.tolist() for batch, _ in whole[number + 1 :]]


def test_the_same_round_twice_is_cut_differently() -> None:
    first, second = (stream(Rounds(list(range(64)), list(range(64)))).round(index) for index in (0, 1))
    assert [batch.tolist() for batch in first] != [batch.tolist() for batch in second]


def test_an_empty_round_has_no_batches() -> None:
    assert [len(batch) for batch, _ in stream(Rounds([1, 2], [], [3, 4])).starting_at(Position())] == [2, 2]


def test_the_learning_rate_warms_up_and_falls_to_zero() -> None:
    rates = [warmup_then_linear(8 * step, 8, 800, warmup=0.1) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.5)
    assert rates[100] == 0.0


def test_cycles_restart_warm_and_end_at_zero() -> None:
    once = [warmup_then_linear(8 * step, 8, 800, warmup=0.1) for step in range(101)]
    twice = [warmup_then_linear(8 * step, 8, 1600, warmup=0.1, cycles=2) for step in range(201)]
    assert twice == pytest.approx(once[:-1] * 2 + [0.0])


def test_the_learning_rate_follows_pairs_whatever_the_batches() -> None:
    for seen, batch in ((300, 10), (300, 64), (299, 1)):
        assert warmup_then_linear(seen, batch, 1_000, warmup=0.1) == pytest.approx(700 / 900, abs=0.002)
