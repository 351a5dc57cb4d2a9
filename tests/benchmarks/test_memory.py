from pathlib import Path

import pytest

from benchmarks import memory


def test_every_part_and_peak_has_a_line(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["memory", str(tiny_model)])
    memory.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 20
    assert all(" MiB" in line for line in lines)
