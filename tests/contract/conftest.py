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
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with a key, low limits and a model that fails on `UNSPEAKABLE`; token ids are allowed."""
    folder = tmp_path_factory.mktemp("guarded")
    build_artifact(folder / "model", fails_on=UNSPEAKABLE)
    limits = {"max_texts": 4, "max_openai_texts": 4, "max_body_bytes": MAX_BODY_BYTES}
    with live_service(folder / "model", folder / "data", api_keys=KEY, token_ids=True, **limits) as client:
        client.headers["authorization"] = f"Bearer {KEY}"
        yield client
