from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.evaluation.mining import (
    best_margins,
    best_threshold,
    evaluate_mining,
    find_mining,
    mine_pairs,
    precision_recall_f1,
    score_mining,
    xsim_error,
)
from tests.training.evaluation.test_sts import encode_by_length
from tests.training.files import write
from training.errors import EvaluationError
from training.evaluation.vectors import nearest, unit_rows


def random_vectors(left: int, right: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((left, 16)).astype(np.float32), generator.standard_normal((right, 16)).astype(
        np.float32
    )


def test_margins_agree_with_a_direct_implementation_of_the_paper() -> None:
    left, right = random_vectors(12, 9)
    cosine = unit_rows(left) @ unit_rows(right).T
    best_of = lambda values: sorted(values, reverse=True)[:4]  # noqa: E731
    margin = np.empty_like(cosine)
    for x in range(12):
        for y in range(9):
            margin[x, y] = cosine[x, y] / (sum(best_of(cosine[x])) / 8 + sum(best_of(cosine[:, y])) / 8)
    found = best_margins(left, right).margins
    for x in range(12):
        neighbours = np.argsort(-cosine[x])[:4]
        assert found.right_of_left_N[x] == neighbours[margin[x, neighbours].argmax()]
        assert found.margin_of_left_N[x] == pytest.approx(margin[x, neighbours].max(), rel=1e-5)
    for y in range(9):
        neighbours = np.argsort(-cosine[:, y])[:4]
        assert found.left_of_right_M[y] == neighbours[margin[neighbours, y].argmax()]


def test_the_margin_resists_a_hub() -> None:
    """Right row 0 is near every left row; left row 1's own translation is a little less near, but near nothing else."""
    hub = np.array([[1, 0, 0], [0.8, 0.6, 0], [0.8, 0, 0.6]], dtype=np.float32)  # left
    right = np.array([[1, 0.3, 0.3], [0.1, 0.9, -0.4], [0.1, -0.4, 0.9]], dtype=np.float32)
    assert nearest(hub, right, 1)[1].ravel().tolist() == [0, 0, 0]
    gold = {(row, row) for row in range(3)}
    assert xsim_error(best_margins(hub, right, k=3), gold) == 0


def test_copies_of_a_sentence_cost_no_pair_and_no_xsim() -> None:
    left, right = random_vectors(30, 30)
    right += 3 * left
    gold = {(row, row) for row in range(30)}
    once = best_margins(left, right)
    often = best_margins(np.tile(left, (4, 1)), np.tile(right, (4, 1)))
    assert {(a, b) for _, a, b in mine_pairs(once)} == gold
    assert {(a, b) for _, a, b in mine_pairs(often)} == {(row, row) for row in range(120)}
    assert xsim_error(often, {(row, row) for row in range(120)}) == xsim_error(once, gold) == 0


def test_xsim_counts_left_sentences_that_miss_their_partner() -> None:
    left, right = np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)[[0, 1, 3, 2]] + np.float32(0.1)
    assert xsim_error(best_margins(left, right), {(row, row) for row in range(4)}) == 50
    assert xsim_error(best_margins(left, right), {(0, 0), (2, 3)}) == 0


def test_each_sentence_is_mined_at_most_once_and_the_best_first() -> None:
    mined = mine_pairs(best_margins(*random_vectors(30, 20)))
    margins, left, right = zip(*mined, strict=True)
    assert list(margins) == sorted(margins, reverse=True)
    assert len(set(left)) == len(left)
    assert len(set(right)) == len(right)


def test_threshold_and_f1_of_a_hand_computed_case() -> None:
    gold = {(0, 0), (1, 1), (2, 2), (9, 9)}
    mined = [(1.5, 0, 0), (1.4, 1, 1), (1.3, 5, 6), (1.2, 2, 2), (1.1, 7, 8)]
    # F1 after each: 2/5, 4/6, 4/7, 6/8, 6/9
    assert best_threshold(mined, gold) == pytest.approx(1.15)
    assert score_mining(mined, gold, threshold=1.2) == {"precision": 75, "recall": 75, "f1": 75, "threshold": 1.2}
    assert precision_recall_f1(set(), gold) == {"precision": 0, "recall": 0, "f1": 0}
    assert best_threshold([(1.5, 3, 4)], gold) == float("inf")


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=30), st.integers(0, 5))
def test_no_threshold_gives_a_better_f1_than_the_chosen_one(pairs: list[tuple[int, bool]], missed: int) -> None:
    ordered = sorted(pairs, reverse=True)
    mined = [(float(margin), row, row) for row, (margin, _) in enumerate(ordered)]
    gold = {(row, row) for row, (_, right) in enumerate(ordered) if right} | {(100 + row, 0) for row in range(missed)}

    def f1(threshold: float) -> float:
        return precision_recall_f1({(left, right) for margin, left, right in mined if margin >= threshold}, gold)["f1"]

    assert f1(best_threshold(mined, gold)) == pytest.approx(max(map(f1, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 9.5])))


def test_threshold_is_chosen_on_even_rows_and_scored_on_odd() -> None:
    gold = {(row, row) for row in range(4)}
    mined = [(2.0, 0, 0), (1.9, 1, 1), (1.5, 2, 2), (1.0, 3, 3), (0.5, 4, 5), (0.4, 5, 6)]
    # even rows 0, 2, 4: best after two of three, half-way between 1.5 and 0.5; odd rows 1, 3, 5: two of two gold
    assert score_mining(mined, gold) == {"precision": 100, "recall": 100, "f1": 100, "threshold": 1.0}
    assert score_mining(mined, gold, threshold=1.6) == {
        "precision": 100,
        "recall": 50,
        "f1": pytest.approx(200 / 3),
        "threshold": 1.6,
    }


def test_without_gold_in_both_halves_no_f1_is_given() -> None:
    left, right = ["a"], ["z"]
    scores = evaluate_mining(encode_by_length, {"de": lambda: (left, right, {(0, 0)})}, threshold=None)
    assert scores.keys() <= {"xsim", "mining_threshold"}
    assert scores["xsim"] == {"de": 0}
    assert "mining_f1" in evaluate_mining(encode_by_length, {"de": lambda: (left, right, {(0, 0)})}, threshold=0.5)
    assert score_mining([(1.5, 1, 1)], {(1, 1)}) == {"threshold": float("inf")}


def write_bucc(folder: Path) -> None:
    write(folder / "de-en.training.de", "de-1\ta", "de-2\tbbbbbbb", "de-3\tccccccccccccccc")
    write(folder / "de-en.training.en", "en-1\tqqqqqqqqqqqqqqqq", "en-2\tz", "en-3\tyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy")
    write(folder / "de-en.training.gold", "de-1\ten-2", "de-3\ten-1")


def test_buccs_layout_is_read_by_id_and_mined(tmp_path: Path) -> None:
    write_bucc(tmp_path)
    files = find_mining(tmp_path)["de-en.training"]
    assert files.languages == ("de", "en")
    assert files.read()[2] == {(0, 1), (2, 0)}
    scores = evaluate_mining(encode_by_length, {"de-en": files.read}, threshold=0.5)
    # de-2 is nearest to en-2, which is de-1's already: it stays alone
    assert {metric: values["de-en"] for metric, values in scores.items()} == {
        "xsim": 0.0,
        "mining_precision": 100.0,
        "mining_recall": 100.0,
        "mining_f1": 100.0,
        "mining_threshold": 0.5,
    }


@pytest.mark.parametrize(
    ("file", "lines", "complaint"),
    [
        ("gold", ["de-1\ten-9"], "line 1 names an id that the text files do not have"),
        ("gold", ["de-1"], "line 1 has 1 columns; the layout is left id<TAB>right id"),
        ("de", ["de-1\ta", "de-1\tb"], "line 2 repeats the id de-1 of line 1"),
    ],
)
def test_a_malformed_mining_task_is_one_sentence(tmp_path: Path, file: str, lines: list[str], complaint: str) -> None:
    write_bucc(tmp_path)
    write(tmp_path / f"de-en.training.{file}", *lines)
    with pytest.raises(EvaluationError, match=rf"de-en\.training\.{file} {complaint}"):
        find_mining(tmp_path)["de-en.training"].read()


def test_gold_pairs_without_a_text_are_refused(tmp_path: Path) -> None:
    write_bucc(tmp_path)
    (tmp_path / "de-en.training.en").unlink()
    with pytest.raises(EvaluationError, match=r"de-en\.training\.gold needs its text files beside it"):
        find_mining(tmp_path)
