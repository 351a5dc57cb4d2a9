"""The services that the contract tests' clients talk to, started once for all of them."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.artifacts import build_artifact
from tests.contract.live import live_service

BUNDLED = Path(__file__).parents[2] / "models" / "default"
KEY = "sesame"
UNSPEAKABLE = "kaputt"  # a text on which the guarded service's model fails
MAX_BODY_BYTES = 2000


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with the bundled model and the default settings."""
    with live_service(BUNDLED, tmp_path_factory.mktemp("bundled")) as client:
        yield client


@pytest.fixture(scope="session")
def tiny(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with a model that answers thousands of texts in seconds, and the default settings."""
    with live_service(tiny_model, tmp_path_factory.mktemp("tiny")) as client:
        yield client


@pytest.fixture(scope="session")
def guarded_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that fails on `UNSPEAKABLE`."""
    model = tmp_path_factory.mktemp("guarded") / "model"
    build_artifact(model, fails_on=UNSPEAKABLE)
    return model


@pytest.fixture(scope="session")
def guarded(guarded_model: Path) -> Iterator[httpx.Client]:
    """A service of that model with a key, room for one body in memory, and token ids allowed."""
    limits = {
        "max_texts": 4,
        "max_openai_texts": 4,
        "max_body_bytes": MAX_BODY_BYTES,
        "max_inflight_bytes": MAX_BODY_BYTES,
    }
    with live_service(
        guarded_model, guarded_model.parent / "data", api_keys=KEY, token_ids=True, body_timeout_s=600, **limits
    ) as client:
        client.headers["authorization"] = f"Bearer {KEY}"
        yield client
