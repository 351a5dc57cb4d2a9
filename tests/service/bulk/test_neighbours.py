import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.bulk import neighbours
from service.bulk.margin import Neighbours, mine, ratio_margins
from service.bulk.neighbours import leaders, nearest


def halves(count: int, *, seed: int = 0, dim: int = 24) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "QUERY_ROWS", 7)
    monkeypatch.setattr(neighbours, "CANDIDATE_ROWS", 11)
    monkeypatch.setattr(neighbours, "PAIR_ROWS", 5)


@pytest.mark.parametrize("k", [1, 4, 13, 100])
def test_neighbours_found_in_blocks_are_those_of_all_scores(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    query, candidate, done = halves(30), halves(40, seed=1), []
    found = nearest(query, candidate, k, threads=1, advance=done.append)
    scores = query.astype(np.float32) @ candidate.astype(np.float32).T
    expected = np.argsort(-scores, axis=1)[:, :k]
    np.testing.assert_array_equal(found.rows_NK, expected)
    np.testing.assert_allclose(found.cosines_NK, np.take_along_axis(scores, expected, axis=1), atol=1e-6)
    assert sum(done) == 30


def test_sixteen_bits_change_a_cosine_by_less_than_a_thousandth() -> None:
    rows = np.random.default_rng(0).standard_normal((200, 384))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    kept = rows.astype(np.float16).astype(np.float64)
    assert np.abs(kept @ kept.T - rows @ rows.T).max() < 2e-4


def leaders_one_by_one(near: np.ndarray) -> list[int]:
    leader: list[int] = []
    for row in range(len(near)):
        leader.append(next((one for one in range(row) if leader[one] == one and near[row, one]), row))
    return leader


@given(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from([0.0, 0.3, 0.45, 0.6, 0.999]))
def test_the_leader_of_a_row_is_the_earliest_leader_near_it(seed: int, count: int, threshold: float) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_blocks(monkeypatch)
        vectors = halves(count, seed=seed, dim=6)
        exact = vectors.astype(np.float64)
        exact /= np.linalg.norm(exact, axis=1, keepdims=True)
        cosines = exact @ exact.T
        assume(np.abs(cosines - threshold).min(initial=1) > 1e-5)  # else it is rounding that decides
        found = leaders(vectors, threshold, advance=lambda rows: None)
        assert found.tolist() == leaders_one_by_one(cosines >= threshold)


@pytest.mark.parametrize("threshold", [0.99, 1.0])
def test_a_thousand_equal_rows_are_one_group(threshold: float) -> None:
    for seed in range(5):  # in 16 bits some have a norm below 1
        vectors = np.repeat(halves(1, seed=seed), 3000, axis=0)
        assert not leaders(vectors, threshold, advance=lambda rows: None).any()


def test_a_margin_is_the_ratio_of_the_paper_worked_out_by_hand() -> None:
    """k = 2. x0: 0.9 to y0, 0.5 to y1. x1: 0.6 to y1, 0.4 to y0."""
    left = Neighbours(np.array([[0.9, 0.5], [0.6, 0.4]], np.float32), np.array([[0, 1], [1, 0]]))
    right = Neighbours(np.array([[0.9, 0.4], [0.6, 0.5]], np.float32), np.array([[0, 1], [1, 0]]))
    margins = ratio_margins(left, right)
    # x0, y0: 0.9 / ((0.9 + 0.5) / 4 + (0.9 + 0.4) / 4) = 0.9 / 0.675;  x1, y1: 0.6 / (1.0 / 4 + 1.1 / 4) = 0.6 / 0.525
    assert mine(margins) == [(pytest.approx(0.9 / 0.675), 0, 0), (pytest.approx(0.6 / 0.525), 1, 1)]


def test_where_nothing_resembles_anything_the_margin_is_zero_and_not_infinite() -> None:
    nothing = Neighbours(np.array([[0.1, -0.2], [-0.1, -0.2]], np.float32), np.array([[0, 1], [0, 1]]))
    assert ratio_margins(nothing, nothing).margin_of_left_N.tolist() == [0, 0]


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 12))
def test_pairs_are_one_to_one_best_first_and_none_is_left_that_two_lines_would_prefer(
    seed: int, left: int, right: int
) -> None:
    x, y = halves(left, seed=seed, dim=5), halves(right, seed=seed + 1, dim=5)
    margins = ratio_margins(
        nearest(x, y, 4, threads=1, advance=lambda rows: None), nearest(y, x, 4, threads=1, advance=lambda rows: None)
    )
    mined = mine(margins)
    assert [margin for margin, _, _ in mined] == sorted((margin for margin, _, _ in mined), reverse=True)
    partner, margin_of = {a: b for _, a, b in mined}, {a: margin for margin, a, _ in mined}
    assert len(set(partner.values())) == len(partner)
    back = {b: a for a, b in partner.items()}
    for a, b in itertools.product(range(left), range(right)):
        if margins.right_of_left_N[a] == b:  # a candidate: it was taken, or one of the two has a better one
            better = [margin_of[row] for row in {a, back.get(b, a)} if row in margin_of]
            assert max(better) >= margins.margin_of_left_N[a]
