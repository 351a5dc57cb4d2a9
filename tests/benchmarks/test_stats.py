import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.serving.stats import by_round, median, percentile, ratio


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
