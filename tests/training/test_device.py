import pytest

from training.device import check_compiler
from training.errors import ConfigError


def test_a_stage_that_compiles_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ConfigError, match=r"contrastive.compile is true and there is no C\+\+ compiler"):
        check_compiler("contrastive")
