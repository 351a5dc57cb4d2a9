from pathlib import Path

import pytest

from benchmarks.serving.before import Measured, Traffic, all_traffic, compare_trees, report


def test_a_ratio_above_1_means_that_this_tree_is_better() -> None:
    rate = Measured("items/s", True, 0, before=[100.0, 200.0, 100.0], now=[110.0, 220.0, 50.0])
    start = Measured("start, s", False, 2, before=[1.2, 1.2], now=[0.96, 0.96])
    assert rate.ratio == pytest.approx(1.1)  # the median of ratios within a round
    assert start.ratio == pytest.approx(1.25)


@pytest.mark.parametrize(("now", "is_kept"), [(97.5, True), (96.0, False)])
def test_report_marks_ratios_under_the_least(now: float, is_kept: bool) -> None:
    table, result = report([Measured("items/s", True, 0, [100.0], [now]), Measured("p99, ms", False, 2)], cores=2)
    assert result is is_kept
    assert ("under 0.97" in table) is not is_kept
    assert "p99" not in table  # not measured


def test_every_load_has_bodies_for_its_clients() -> None:
    loads = all_traffic()
    assert {(load.method, load.route) for load in loads} == {
        *(("POST", "/embed"), ("POST", "/search"), ("PUT", "/documents")),
    }
    assert all(len(load.bodies) == len(set(load.bodies)) >= _least(load) for load in loads)


def _least(load: Traffic) -> int:
    return load.clients if load.items == 1 else 4


def test_a_folder_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no tree of this project"):
        compare_trees(tmp_path, folder=tmp_path, cores=1, rounds=1, seconds=0.1)
