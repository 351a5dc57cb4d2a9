"""Which rounds of a benchmark count."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.serving.report import page
from benchmarks.serving.results import (
    Agreement,
    Failure,
    LoadResult,
    ProcessResult,
    Result,
    Run,
    by_round,
    median,
    percentile,
    quiet_rounds,
    ratio,
)
from tests.benchmarks.results import floor_results, load_results, whole_run


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0.01, 1.0))
def test_a_percentile_is_the_nearest_rank(values: list[float], share: float) -> None:
    assert percentile(values, share) == np.quantile(values, share, method="inverted_cdf")


def test_the_percentile_of_nothing_is_no_number() -> None:
    assert math.isnan(percentile([], 0.5))


def test_a_round_without_a_figure_does_not_count_for_the_median() -> None:
    assert median([1.0, None, 3.0, math.nan]) == 2.0
    assert median([None]) is None


def test_rounds_that_lack_a_figure_are_left_out() -> None:
    assert by_round(ratio, {0: 1.0, 1: 4.0, 2: 9.0, 3: None}, {1: 2.0, 2: math.nan, 3: 1.0}) == [2.0]
    assert by_round(max, {}, {1: 2.0}) == []


@pytest.mark.parametrize(("value", "other"), [(None, 1.0), (1.0, None), (1.0, 0.0)])
def test_a_ratio_of_something_missing_is_missing(value: float | None, other: float | None) -> None:
    assert ratio(value, other) is None


def busy_round(cores: int) -> list[Result]:
    """A first round with one load beside other work."""
    first, *others = load_results("plain", 90.0, cores=cores)
    assert isinstance(first, LoadResult)
    process = ProcessResult("plain", cores, 0, 1.0, 1.0, 1.0, 1.0)
    return [replace(first, other_share=0.52), *others, process, *floor_results("minilm-int8", 1.0, cores=cores)]


def test_a_round_beside_other_work_is_left_out_whole_and_named() -> None:
    others = [Agreement("plain", 2, 0.9, 0.9, 0.0), Failure("fastembed", "ended with 1")]
    quiet = [*load_results("plain", 10.0, round_=1), *floor_results("minilm-int8", 2.0, round_=1), *others]
    kept = quiet_rounds(Run({"Machine": "a test"}, (*busy_round(2), *quiet)))
    assert list(kept.results) == quiet
    assert "- Left out: round 1 on 2 cores, of which other work took up to 52%\n" in page(kept)


def test_page_warns_where_no_round_was_quiet() -> None:
    run = Run({}, (*busy_round(2), *load_results("plain", 10.0, round_=1), *busy_round(1)))
    kept = quiet_rounds(run)
    assert [(one.cores, one.round) for one in kept.loads] == [(2, 1)] * 6 + [(1, 0)] * 6
    assert "busy with other work, up to 52%: do not rely" in page(kept)


def test_a_quiet_run_is_kept_as_it_is() -> None:
    assert quiet_rounds(whole_run()) == whole_run()
