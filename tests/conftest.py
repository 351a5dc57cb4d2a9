import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.artifacts import build_artifact
from tests.reranker_artifact import build_reranker

# A busy machine may take any time over an example; the rest is Hypothesis' own, in CI as elsewhere.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")

# Under nohup the one is ignored, in the background of a shell the other, and so would every process of the tests.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_shell() -> Iterator[None]:
    """CROSSLET_TEST_* alone is meant for tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("CROSSLET_") and not name.startswith("CROSSLET_TEST_"):
                patch.delenv(name)
        yield


@pytest.fixture(autouse=True)
def sigterm_as_it_was() -> Iterator[None]:
    """`crosslet` handles the signal for its process, which here is that of the tests."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def anyio_backend() -> str:
    """The loop of tests that are coroutines (pytest.mark.anyio)."""
    return "asyncio"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny real artifact; read-only for tests."""
    folder = tmp_path_factory.mktemp("tiny")
    build_artifact(folder)
    return folder


@pytest.fixture(scope="session")
def failing_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny artifact that fails on texts with the word kaputt; read-only for tests."""
    folder = tmp_path_factory.mktemp("failing")
    build_artifact(folder, fails_on="kaputt")
    return folder


@pytest.fixture(scope="session")
def tiny_reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny real re-ranker; read-only for tests."""
    folder = tmp_path_factory.mktemp("reranker")
    build_reranker(folder)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file that must stay as it is, whatever link leads to it."""
    path = tmp_path / "victim"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious"
