import pytest
from fastapi.testclient import TestClient

from tests.service.conftest import Serve


@pytest.fixture(scope="module")
def client(serve_module: Serve) -> TestClient:
    """One service for all tests of a module: none of them depends on what is stored."""
    return serve_module()
