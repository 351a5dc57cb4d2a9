"""`crosslet index backup` beside a service in another process, and `restore` for the next one."""

from pathlib import Path

import pytest

from tests.artifacts import TEXTS
from tests.contract.live import live_service
from tests.service.cli.conftest import Crosslet
from tests.service.offline.files import DOCUMENTS

pytestmark = pytest.mark.usefixtures("local")


def test_next_service_starts_from_a_backup_made_beside_one(
    crosslet: Crosslet, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, other = tmp_path / "a.backup", tmp_path / "other"
    with live_service(tiny_model, tmp_path / "data", workers=1) as client:
        client.put("/documents", json={"documents": DOCUMENTS}).raise_for_status()
        assert "12 documents, revision 1" in crosslet("index", "backup", backup).err
        refused = crosslet("index", "restore", backup, "--force", status=2).err
        assert f"is in use by the service at {client.base_url}" in refused
    assert "already; replace it with --force" in crosslet("index", "restore", backup, status=2).err
    monkeypatch.setenv("CROSSLET_DATA", str(other))
    assert f"{other}" in crosslet("index", "restore", backup).err
    assert "12 documents are intact" in crosslet("index", "verify").err
    with live_service(tiny_model, other, workers=1) as client:
        assert len(client.get("/documents").json()["documents"]) == 12
        answer = client.put("/documents", json={"documents": [{"id": "x", "text": f"{TEXTS[1]} x"}]}).json()
        assert answer["revision"] == 2
        assert client.post("/search", json={"query": f"{TEXTS[1]} x", "top_k": 1}).json()["results"][0]["id"] == "x"
