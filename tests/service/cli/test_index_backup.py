"""`crosslet index backup` beside a service in another process, and `restore` for the next one."""

import threading
from pathlib import Path

import httpx
import pytest

from tests.artifacts import TEXTS
from tests.contract.live import live_service
from tests.service.cli.conftest import Crosslet

pytestmark = pytest.mark.usefixtures("local")


def listed(client: httpx.Client) -> dict[str, int]:
    """Id -> metadata's `n`."""
    page = client.get("/documents", params={"limit": 1000}).json()
    assert page["next_cursor"] is None
    return {document["id"]: document["metadata"]["n"] for document in page["documents"]}


def test_next_service_starts_from_a_backup_beside_writes(
    crosslet: Crosslet, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, stopped = [0], threading.Event()
    with live_service(tiny_model, tmp_path / "data", workers=1) as client:

        def write() -> None:
            while not stopped.is_set():
                n = answered[0] + 1
                documents = [
                    {"id": id_, "text": TEXTS[0], "metadata": {"n": n}} for id_ in (f"{n}/a", f"{n}/b", "same")
                ]
                client.put("/documents", json={"documents": documents}).raise_for_status()
                answered[0] = n

        writer = threading.Thread(target=write)
        writer.start()
        try:
            while not answered[0]:
                stopped.wait(0.01)
            before = answered[0]
            said = crosslet("index", "backup", tmp_path / "a.backup").err
        finally:
            stopped.set()
            writer.join()
        last = answered[0]
        refused = crosslet("index", "restore", tmp_path / "a.backup", "--force", status=2).err
        assert f"is in use by the service at {client.base_url}" in refused
    assert "documents, revision" in said
    refused = crosslet("index", "restore", tmp_path / "a.backup", status=2).err
    assert "already; replace it with --force" in refused
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "other"))
    assert f"{tmp_path / 'other'}" in crosslet("index", "restore", tmp_path / "a.backup").err
    assert "documents are intact" in crosslet("index", "verify").err
    with live_service(tiny_model, tmp_path / "other", workers=1) as client:
        found = listed(client)
        held = found.pop("same")
        assert before <= held <= last
        assert found == {f"{n}/{half}": n for n in range(1, held + 1) for half in "ab"}
        answer = client.put("/documents", json={"documents": [{"id": "x", "text": TEXTS[1]}]}).json()
        assert answer["revision"] == held + 1
        assert client.post("/search", json={"query": TEXTS[1], "top_k": 1}).json()["results"][0]["id"] == "x"


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_backup_and_restore_need_a_local_store_or_backup(
    crosslet: Crosslet, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no " in crosslet("index", command, tmp_path / "a.backup", status=2).err
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("CROSSLET_INDEX", "milvus://localhost:19530/default")
    assert "CROSSLET_INDEX names a Milvus" in crosslet("index", command, tmp_path / "a.backup", status=2).err
