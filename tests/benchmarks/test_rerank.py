import importlib
import os
import re
from pathlib import Path

import pytest

from benchmarks.rerank import LENGTHS, by_length


@pytest.mark.parametrize("name", ["rerank", "reranked_search"])
def test_benchmarks_of_rerankers_can_be_imported(name: str) -> None:
    assert importlib.import_module(f"benchmarks.{name}").main


def test_time_by_length_has_a_row_a_length(tiny_reranker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cpus = os.sched_getaffinity(0)
    by_length(tiny_reranker, cores=len(cpus), rounds=1)
    rows = re.findall(r"\| (\d+) \| (\d+\.\d) \|", capsys.readouterr().out)
    assert len(rows) == len(LENGTHS)
    assert os.sched_getaffinity(0) == cpus
