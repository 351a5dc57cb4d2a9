import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run tests that are coroutines on asyncio's own event loop."""
    return "asyncio"
