from pathlib import Path

import pytest

from training.errors import ConfigError
from training.system.device import check_compiler


def test_a_compiled_stage_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ConfigError, match=r"contrastive.compile is true and there is no C\+\+ compiler"):
        check_compiler("contrastive")


def test_a_compiled_stage_without_headers_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "sh")
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(ConfigError, match=r"contrastive.compile is true and there is no .*Python.h.*python3-dev"):
        check_compiler("contrastive")
    (tmp_path / "Python.h").touch()
    check_compiler("contrastive")
