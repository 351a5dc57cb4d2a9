import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.offline import mining
from service.offline.mining import (
    GROUP_NEIGHBOURS,
    Mined,
    Neighbours,
    different,
    groups_by_margin,
    leaders,
    mine,
    near_pairs,
    nearest,
    nearest_others,
    ratio_margins,
)


def halves(count: int, *, seed: int = 0, dim: int = 24) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mining, "QUERY_ROWS", 7)
    monkeypatch.setattr(mining, "CANDIDATE_ROWS", 11)
    monkeypatch.setattr(mining, "PAIR_ROWS", 5)


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


def test_nearest_others_leave_out_the_row_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    vectors = halves(40)
    found = nearest_others(vectors, 3, threads=1, advance=lambda rows: None)
    scores = vectors.astype(np.float32) @ vectors.astype(np.float32).T
    np.fill_diagonal(scores, -np.inf)
    np.testing.assert_array_equal(found.rows_NK, np.argsort(-scores, axis=1)[:, :3])
    equal = nearest_others(np.repeat(vectors[:1], 9, axis=0), 3, threads=1, advance=lambda rows: None)
    assert equal.rows_NK.shape == (9, 3)
    assert not (equal.rows_NK[:3] == np.arange(3)[:, None]).any()
    assert nearest_others(vectors[:2], 3, threads=1, advance=lambda rows: None).rows_NK.tolist() == [[1], [0]]


def test_different_rows_and_their_copies_are_found() -> None:
    vectors = halves(5)[[0, 1, 0, 2, 2, 1, 3]]
    rows, places = different(vectors)
    assert (rows.tolist(), places.tolist()) == ([0, 1, 3, 6], [0, 1, 0, 2, 2, 1, 3])
    assert [part.tolist() for part in different(vectors[:0])] == [[], []]


def test_the_margin_of_a_pair_in_one_text_is_worked_out_by_hand() -> None:
    """0 and 1 resemble each other alone; 2 resembles 0 and 3 as much."""
    near = Neighbours(
        np.array([[0.9, 0.3], [0.9, 0.2], [0.6, 0.6], [0.6, 0.1]], np.float32),
        np.array([[1, 2], [0, 3], [0, 3], [2, 1]]),
    )
    # the farther half is the second: 0, 1: 0.9 / ((0.3 + 0.2) / 2) = 3.6;  2, 3: 0.6 / ((0.6 + 0.1) / 2) = 1.71;
    # 0, 2: 0.6 / ((0.6 + 0.3) / 2) = 1.33;  1, 3: 0.2 / ((0.2 + 0.1) / 2) = 1.33
    assert near_pairs(near, margin=2, cosine=0).tolist() == [[1, 0]]
    assert near_pairs(near, margin=1.7, cosine=0).tolist() == [[1, 0], [3, 2]]
    assert near_pairs(near, margin=1.3, cosine=0).tolist() == [[1, 0], [2, 0], [3, 1], [3, 2]]
    assert near_pairs(near, margin=1.3, cosine=0.5).tolist() == [[1, 0], [2, 0], [3, 2]]
    assert near_pairs(near, margin=4, cosine=0).shape == (0, 2)


def test_lines_that_several_others_repeat_are_found() -> None:
    """A file in five languages: each line has four translations, which are its nearest."""
    generator = np.random.default_rng(1)
    sentences = generator.normal(size=(30, 64))
    lines = np.repeat(sentences, 5, axis=0) + 0.3 * generator.normal(size=(150, 64))
    vectors = (lines / np.linalg.norm(lines, axis=1, keepdims=True)).astype(np.float16)
    found = groups_by_margin(vectors, cosine=0.8, margin=1.6, threads=1, advance=lambda rows: None)
    assert found.tolist() == np.repeat(np.arange(0, 150, 5), 5).tolist()


@given(st.integers(0, 10_000), st.integers(0, 60), st.sampled_from([1.05, 1.2, 1.5]), st.sampled_from([0.0, 0.8]))
def test_groups_by_margin_are_those_of_all_scores(seed: int, count: int, margin: float, cosine: float) -> None:
    vectors = halves(count, seed=seed, dim=6)
    vectors = vectors[np.random.default_rng(seed).integers(0, max(1, count), count)]  # some are equal
    exact = vectors.astype(np.float32).astype(np.float64)
    rows, places = different(vectors)
    assume(len(rows) > GROUP_NEIGHBOURS)
    scores = exact[rows] @ exact[rows].T
    np.fill_diagonal(scores, -np.inf)
    nearest_NK = np.argsort(-scores, axis=1)[:, :GROUP_NEIGHBOURS]
    mean = np.take_along_axis(scores, nearest_NK[:, GROUP_NEIGHBOURS // 2 :], axis=1).mean(axis=1)
    near = np.zeros(scores.shape, bool)
    for row, other in itertools.product(range(len(nearest_NK)), range(len(nearest_NK))):
        if other not in nearest_NK[row]:
            continue
        least = max(cosine, margin * (mean[row] + mean[other]) / 2)
        assume(abs(scores[row, other] - least) > 1e-5)  # else it is rounding that decides
        near[row, other] |= scores[row, other] >= least and mean[row] + mean[other] > 0
    expected = rows[leaders_one_by_one(near | near.T)][places].tolist()
    found = groups_by_margin(vectors, cosine=cosine, margin=margin, threads=1, advance=lambda rows: None)
    assert found.tolist() == expected


@given(st.integers(0, 10_000), st.integers(0, GROUP_NEIGHBOURS))
def test_few_lines_are_grouped_by_cosine_alone(seed: int, count: int) -> None:
    vectors = halves(count, seed=seed, dim=3)
    found = groups_by_margin(vectors, cosine=0.8, margin=1.6, threads=1, advance=lambda rows: None)
    assert found.tolist() == leaders(vectors, 0.8, advance=lambda rows: None).tolist()


def test_a_margin_is_the_ratio_of_the_paper_worked_out_by_hand() -> None:
    """k = 2. x0: 0.9 to y0, 0.5 to y1. x1: 0.6 to y1, 0.4 to y0."""
    left = Neighbours(np.array([[0.9, 0.5], [0.6, 0.4]], np.float32), np.array([[0, 1], [1, 0]]))
    right = Neighbours(np.array([[0.9, 0.4], [0.6, 0.5]], np.float32), np.array([[0, 1], [1, 0]]))
    margins = ratio_margins(left, right)
    # x0, y0: 0.9 / ((0.9 + 0.5) / 4 + (0.9 + 0.4) / 4) = 0.9 / 0.675;  x1, y1: 0.6 / (1.0 / 4 + 1.1 / 4) = 0.6 / 0.525
    expected = [(pytest.approx(0.9 / 0.675), 0, 0), (pytest.approx(0.6 / 0.525), 1, 1)]
    assert mine(margins, np.arange(2), np.arange(2)) == expected


def test_margin_is_zero_where_nothing_is_similar() -> None:
    nothing = Neighbours(np.array([[0.1, -0.2], [-0.1, -0.2]], np.float32), np.array([[0, 1], [0, 1]]))
    assert ratio_margins(nothing, nothing).margin_of_left_N.tolist() == [0, 0]


def mined_from(left: np.ndarray, right: np.ndarray) -> list[Mined]:
    (left_rows, left_places), (right_rows, right_places) = different(left), different(right)
    x, y = left[left_rows], right[right_rows]
    of_x, of_y = (nearest(*pair, 4, threads=1, advance=lambda rows: None) for pair in ((x, y), (y, x)))
    return mine(ratio_margins(of_x, of_y), left_places, right_places)


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 12))
def test_mined_pairs_are_one_to_one_and_stable(seed: int, left: int, right: int) -> None:
    x, y = halves(left, seed=seed, dim=5), halves(right, seed=seed + 1, dim=5)
    margins = ratio_margins(
        nearest(x, y, 4, threads=1, advance=lambda rows: None), nearest(y, x, 4, threads=1, advance=lambda rows: None)
    )
    mined = mine(margins, np.arange(left), np.arange(right))
    assert [margin for margin, _, _ in mined] == sorted((margin for margin, _, _ in mined), reverse=True)
    partner, margin_of = {a: b for _, a, b in mined}, {a: margin for margin, a, _ in mined}
    assert len(set(partner.values())) == len(partner)
    back = {b: a for a, b in partner.items()}
    for a, b in itertools.product(range(left), range(right)):
        if margins.right_of_left_N[a] == b:  # a candidate: it was taken, or one of the two has a better one
            better = [margin_of[row] for row in {a, back.get(b, a)} if row in margin_of]
            assert max(better) >= margins.margin_of_left_N[a]


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 12), st.integers(2, 6))
def test_copies_on_both_sides_add_the_same_pairs_again(seed: int, left: int, right: int, times: int) -> None:
    x, y = halves(left, seed=seed, dim=5), halves(right, seed=seed + 1, dim=5)
    row_of_left, row_of_right = (
        np.random.default_rng(seed).permutation(np.repeat(np.arange(count), times)) for count in (left, right)
    )
    mined = mined_from(x[row_of_left], y[row_of_right])
    found = [(margin, int(row_of_left[a]), int(row_of_right[b])) for margin, a, b in mined if margin > 0]
    once = [pair for pair in mined_from(x, y) if pair[0] > 0]  # at 0 it is the order of the lines that decides
    assert sorted(found) == sorted(once * times)


def test_copies_pair_in_the_order_of_the_lines() -> None:
    x, y = halves(12), halves(12)
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(12), 4))
    assert sorted((a, b) for _, a, b in mined_from(x[order], y[order])) == [(row, row) for row in range(48)]


def test_copies_left_over_stay_alone_or_take_the_next_best() -> None:
    x = halves(12)
    assert len(mined_from(np.repeat(x, 3, axis=0), x)) == 12
    near = halves(1, seed=9) * np.float16(0.2) + x[:1]  # a second translation of the first line
    left = np.concatenate([x, x[:1]])
    pairs = {(a, b) for _, a, b in mined_from(left, np.concatenate([x, near]))}
    assert pairs == {(row, row) for row in range(13)}
