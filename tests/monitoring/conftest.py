"""A service with compose's limits that has seen everything the dashboard shows."""

import threading
from collections.abc import Iterator

import httpx
import pytest

from tests.contract.live import live_service
from tests.skeleton.compose import compose
from tests.skeleton.project import ROOT

KEY = "sesame"
ROOM_BYTES = 4_000  # for two documents of the bundled model
TEXT = "A man is playing a guitar."


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The bundled model under compose's memory budget; /metrics asks for a key."""
    budget = compose()["services"]["service"]["environment"]["CROSSLET_MEMORY_BUDGET"]
    limits = {"workers": 1, "max_queue_texts": 1, "max_index_bytes": ROOM_BYTES, "memory_budget": budget}
    data = tmp_path_factory.mktemp("watched")
    with live_service(ROOT / "models" / "default", data, api_keys=KEY, metrics_open="false", **limits) as client:
        client.headers["authorization"] = f"Bearer {KEY}"
        use(client)
        yield client


def use(client: httpx.Client) -> None:
    """Requests of every kind: answered, cut, refused with 429, failed with 507; and documents."""
    assert client.post("/embed", json={"inputs": [TEXT, TEXT * 200]}).headers["x-truncated"].startswith("1;")
    documents = [{"id": str(number), "text": TEXT} for number in range(10)]
    assert client.put("/documents", json={"documents": documents[:2]}).status_code == 200
    assert client.put("/documents", json={"documents": documents}).status_code == 507
    assert client.post("/search", json={"query": TEXT}).status_code == 200
    for _ in range(100):
        if refused(client):
            return
    raise AssertionError("100 full queues, and nothing was refused")


def refused(client: httpx.Client) -> bool:
    """Whether one of the requests beside a large one got 429."""
    many = {"inputs": [f"{number} {TEXT}" for number in range(200)]}
    large = threading.Thread(target=lambda: client.post("/embed", json=many))
    large.start()
    statuses = set()
    while large.is_alive():
        statuses.add(client.post("/embed", json={"inputs": TEXT}).status_code)
    large.join()
    return 429 in statuses
