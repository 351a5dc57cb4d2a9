import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parallel_text import write_data_folder
from tests.training.ablation.specs import finish, plan, write_spec
from training.ablation.findings import Comparison, Verdict, compare, judge, measure_noise
from training.ablation.results import Results
from training.ablation.spec import Finding


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_folder(tmp_path_factory.mktemp("data"), pairs_per_language=20)


def results_of(data: Path, folder: Path, scores: dict[str, float], **changes: object) -> Results:
    """Cells finished with these cross-lingual scores, by folder name."""
    _, trials = plan(write_spec(folder, **changes), data, folder / "out")
    for trial in trials:
        if trial.cell.folder in scores:
            finish(trial, mono=70.0, cross=scores[trial.cell.folder])
    return Results.of(trials)


def compared(difference: float | None, margin: float = 0.5) -> Comparison:
    return Comparison("cross", "a", "b", difference, margin)


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.6, 3.0], Verdict.CONFIRMED),
        ([0.6, 0.5], Verdict.WITHIN_NOISE),
        ([0.6, -0.5], Verdict.WITHIN_NOISE),
        ([3.0, -0.6], Verdict.NOT_CONFIRMED),
        ([0.0, -0.6], Verdict.NOT_CONFIRMED),
        ([3.0, None], Verdict.NOT_RUN),
    ],
)
def test_claim_holds_if_every_difference_exceeds_its_margin(differences: list, verdict: Verdict) -> None:
    assert judge([compared(difference) for difference in differences]) is verdict


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(0, 2))
def test_a_claim_and_its_opposite_are_never_both_confirmed(differences: list[float], margin: float) -> None:
    verdict = judge([compared(difference, margin) for difference in differences])
    opposite = judge([compared(-difference, margin) for difference in differences])
    assert not (verdict is opposite is Verdict.CONFIRMED)
    if verdict is Verdict.CONFIRMED:
        assert opposite is Verdict.NOT_CONFIRMED


def test_scores_that_rise_along_an_order_confirm_it_step_by_step(data: Path, tmp_path: Path) -> None:
    results = results_of(data, tmp_path, {"w-o-Rec": 60.0, "full": 64.0, "M=6": 64.2})
    comparisons = compare(Finding(order=[["w/o Rec.", "full", "M=6"]]), results, floor=0.5)
    assert [(each.worse, each.better) for each in comparisons] == [("w/o Rec.", "full"), ("full", "M=6")]
    assert [each.difference for each in comparisons] == pytest.approx([4.0, 0.2])
    assert [each.verdict for each in comparisons] == [Verdict.CONFIRMED, Verdict.WITHIN_NOISE]


def test_a_cell_without_scores_leaves_a_claim_open(data: Path, tmp_path: Path) -> None:
    results = results_of(data, tmp_path, {"full": 64.0})
    assert judge(compare(Finding(order=[["w/o MCL", "full"]]), results, floor=0.5)) is Verdict.NOT_RUN


def test_the_margin_of_three_seeds_is_students_interval(data: Path, tmp_path: Path) -> None:
    scores = {"full": 64.0, "full-seed-2": 65.0, "full-seed-3": 66.0, "w-o-MCL": 60.0}
    results = results_of(data, tmp_path, scores, seeds={"full": [2, 3]})
    noise = measure_noise(results, "cross", floor=0.5)
    assert (noise.deviation, noise.freedom) == (pytest.approx(1.0), 2)
    (comparison,) = compare(Finding(order=[["w/o MCL", "full"]]), results, floor=0.5)
    assert comparison.difference == pytest.approx(5.0)  # against the mean of the three
    assert comparison.margin == pytest.approx(4.302653 * math.sqrt(1 / 1 + 1 / 3))  # t of 2 degrees: printed tables
    assert measure_noise(results, "mono", floor=0.5).margin(1, 1) == 0.5  # no spread: the floor


def test_the_variances_of_several_cells_are_pooled(data: Path, tmp_path: Path) -> None:
    scores = {"full": 64.0, "full-seed-2": 66.0, "M=6": 70.0, "M=6-seed-2": 74.0}
    results = results_of(data, tmp_path, scores, seeds={"full": [2], "M=6": [2]})
    noise = measure_noise(results, "cross", floor=0.5)
    assert noise.deviation == pytest.approx(math.sqrt((2.0 + 8.0) / 2))
    assert noise.freedom == 2
