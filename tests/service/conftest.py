from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.runtime import load_runtime
from service.settings import Settings

Serve = Callable[..., TestClient]


@pytest.fixture
def serve(tiny_model: Path, tmp_path: Path) -> Iterator[Serve]:
    """Start the whole application over the tiny model; settings as keywords."""
    clients: list[TestClient] = []

    def start(**settings: Any) -> TestClient:
        options = {"model": tiny_model, "data": tmp_path / f"data{len(clients)}", "workers": 2} | settings
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
def client(serve: Serve) -> TestClient:
    return serve()
