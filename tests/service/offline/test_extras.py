import sys
from pathlib import Path

import pytest

from service.documents.readers.sources import open_source
from service.errors import StartError
from service.offline.ray_engine import Model, _rounds, ray_engine


def test_without_ray_the_engine_says_what_installs_it(monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(StartError, match=r"--engine ray needs Ray: `make setup-dev`"):
        next(ray_engine(Model(tiny_model, None, "", 16))([["x"]]))


def test_without_pyarrow_a_parquet_file_says_what_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        pytest.raises(StartError, match=r"parquet files need pyarrow: `make setup-dev`"),
        open_source(tmp_path / "a.parquet", "parquet"),
    ):
        pass


def test_ray_rounds_are_whole_batches_without_reading_ahead() -> None:
    read = []
    batches = (read.append(number) or ["x"] * number for number in (3, 0, 4, 5, 1))  # type: ignore[func-returns-value]
    rounds = _rounds(batches, 6)
    assert [len(texts) for texts in next(rounds)] == [3, 0, 4]
    assert read == [3, 0, 4]
    assert [[len(texts) for texts in round_] for round_ in rounds] == [[5, 1]]
