import math
from dataclasses import replace

import pytest

from benchmarks.serving.__main__ import say_verdicts
from benchmarks.serving.criteria import Criterion, judge
from benchmarks.serving.peers import INFINITY_SKIPPING, PLAIN_SKIPPING, SKIPPING
from benchmarks.serving.results import Agreement, FloorResult, LoadResult, ProcessResult, Run
from tests.benchmarks.results import whole_run


def verdicts(run: Run, part: str, cores: int = 2) -> set[str]:
    found = {one.verdict for one in judge(run, cores) if part in one.what}
    assert found, f"no criterion says {part!r}"
    return found


def changed(run: Run, kind: type, peer: str = "", **values: object) -> Run:
    """The run with other values in its results of one kind, of one peer or of all."""

    def one(result: object) -> object:
        applies = isinstance(result, kind) and peer in ("", getattr(result, "peer", ""))
        return replace(result, **values) if applies else result  # type: ignore[type-var]

    return Run(run.setting, tuple(one(result) for result in run.results))  # type: ignore[misc]


@pytest.mark.parametrize("cores", [1, 2])
def test_everything_that_is_within_its_limit_passes(cores: int) -> None:
    assert {one.verdict for one in judge(whole_run(), cores)} == {"PASS"}


def test_a_limit_itself_is_within() -> None:
    assert Criterion("x", [0.9], 0.9, at_most=False).verdict == "PASS"
    assert Criterion("x", [1.0], 1.0, at_most=True).verdict == "PASS"


def test_a_line_has_both_numbers_and_the_verdict() -> None:
    assert Criterion("p99 over p50", [3.4, 3.5, 9.0], 3.0, at_most=True).line == "FAIL: p99 over p50: 3.50 (at most 3)"


def failing(run: Run) -> set[str]:
    return {one.what.partition(": ")[2] for one in judge(run, 2) if one.verdict == "FAIL"}


def test_the_better_engine_of_infinity_counts() -> None:
    run = changed(whole_run(), LoadResult, "infinity, torch", texts_per_s=100.0)
    assert failing(run) == set()
    run = changed(run, LoadResult, "infinity, optimum", texts_per_s=500.0)
    assert failing(run) == {"times infinity's better engine"}


def test_a_plain_server_that_is_nearly_as_fast_fails_us() -> None:
    run = changed(whole_run(), LoadResult, "25-line server", texts_per_s=700.0)
    assert failing(run) == {"times the 25-line server"}


def test_peers_with_our_graph_have_their_own_criteria() -> None:
    for peer in (INFINITY_SKIPPING, PLAIN_SKIPPING):
        (what,) = failing(changed(whole_run(), LoadResult, peer.name, texts_per_s=700.0))
        assert what.endswith(SKIPPING)


@pytest.mark.parametrize(
    ("kind", "values", "part"),
    [
        (FloorResult, {"p50_ms": 0.9}, "ms of p50 over"),
        (LoadResult, {"p99_ms": 6.1}, "p99 over p50"),
        (ProcessResult, {"ready_mib": 131.0}, "resident when ready"),
        (ProcessResult, {"peak_mib": 201.0}, "at its peak"),
        (ProcessResult, {"cold_start_s": 1.01}, "first answer"),
        (Agreement, {"largest_difference": 1e-9}, "alone and in a batch"),
    ],
)
def test_each_limit_can_be_missed(kind: type, values: dict[str, float], part: str) -> None:
    assert verdicts(changed(whole_run(), kind, **values), part) == {"FAIL"}


def test_a_ratio_is_made_within_its_round() -> None:
    """The second round is twice as slow for all."""
    rounds = [
        replace(one, round=1, texts_per_s=one.texts_per_s / 2) if isinstance(one, LoadResult | FloorResult) else one
        for one in whole_run(ours=1000.0).results
    ]
    (share, *_) = judge(Run({}, (*whole_run().results, *rounds)), 2)
    assert list(share.rounds) == [0.95, 1.0]


def test_a_round_with_a_failed_request_does_not_count() -> None:
    run = changed(whole_run(), LoadResult, "crosslet", failed=1)
    assert verdicts(run, "infinity") == {"not measured"}
    assert not run.is_whole
    assert whole_run().is_whole


def test_an_incomplete_run_exits_with_1() -> None:
    assert say_verdicts(whole_run()) == 0
    assert say_verdicts(whole_run(ours=899.0)) == 1
    assert say_verdicts(changed(whole_run(), LoadResult, p99_ms=math.nan)) == 1
    assert say_verdicts(Run({}, ())) == 1


def test_what_was_not_measured_neither_passes_nor_fails() -> None:
    assert {one.verdict for one in judge(Run({}, ()), 2)} == {"not measured"}
