"""The services that the contract tests' clients talk to, started once for all of them."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.document_index import load_collection
from service.documents.interface import DocumentIndex
from service.settings import Settings
from tests.artifacts import build_artifact
from tests.contract.live import live_service
from tests.contract.milvus_standalone import MilvusStandalone, Open, manifest_of

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


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusStandalone]:
    """A Milvus server: that of CROSSLET_TEST_MILVUS, or one that is started."""
    url = os.environ.get("CROSSLET_TEST_MILVUS", "")
    server = MilvusStandalone(tmp_path_factory.mktemp("milvus"), url=url)
    if url:
        yield server
        return
    server.start()
    try:
        server.wait()
        yield server
    finally:
        server.kill()


@pytest.fixture(params=["embedded", "milvus-lite", pytest.param("milvus", marks=pytest.mark.milvus)])
def open_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the index of a model; what was open before is closed first."""
    if request.param == "milvus":
        chosen = request.getfixturevalue("standalone").settings(data=tmp_path, index_timeout_s=100)
    else:
        where = {"embedded": "embedded", "milvus-lite": f"milvus+lite://{tmp_path}/documents.db"}
        chosen = Settings(data=tmp_path, index=where[request.param], index_timeout_s=100)
    run = secrets.token_hex(7)  # a server keeps the collections of other tests
    opened: list[DocumentIndex] = []

    def close() -> None:
        while opened:
            opened.pop().close()

    def open_(model: str = "aa") -> DocumentIndex:
        close()
        opened.append(load_collection(chosen, manifest_of(model + run)))
        return opened[0]

    yield open_
    close()


@pytest.fixture
def index(open_index: Open) -> DocumentIndex:
    return open_index()
