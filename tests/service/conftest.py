from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.runtime import load_runtime
from service.settings import Settings

Serve = Callable[..., TestClient]


@contextmanager
def serving(model: Path, folder: Path) -> Iterator[Serve]:
    """Give a function that starts the whole application over a model; settings as keywords."""
    clients: list[TestClient] = []

    def start(**settings: Any) -> TestClient:
        options = {"model": model, "data": folder / f"data{len(clients)}", "workers": 2} | settings
        client = TestClient(
            create_app(load_runtime(Settings(**options))), base_url="http://localhost", raise_server_exceptions=False
        )
        client.__enter__()
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def serve(tiny_model: Path, tmp_path: Path) -> Iterator[Serve]:
    with serving(tiny_model, tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def serve_module(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """As `serve`, for a service that all tests of a module share."""
    with serving(tiny_model, tmp_path_factory.mktemp("service")) as start:
        yield start


@pytest.fixture
def client(serve: Serve) -> TestClient:
    return serve()


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}
