"""What `crosslet doctor` finds, and that it changes nothing."""

import json
import shutil
import socket
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from service.document_index import load_collection
from service.model.artifact import load_manifest
from service.process.memory import memory_limit
from service.settings import Settings
from tests.artifacts import DIM, add_space, build_artifact
from tests.contract.live import live_service
from tests.service.cli.conftest import Crosslet
from tests.service.cli.terminal import on_a_terminal

pytestmark = pytest.mark.usefixtures("local")

CHECKS = ["version", "processor", "model", "memory", "store", "keys", "exposure", "port"]


@pytest.fixture(autouse=True)
def free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLET_PORT", "0")


def examined(crosslet: Crosslet, *options: object, status: int = 0) -> dict[str, tuple[str, str]]:
    """Return status and sentence by check."""
    answer = json.loads(crosslet("doctor", *options, status=status).out)
    assert answer["ok"] == (status == 0)
    return {one["check"]: (one["status"], one["finding"]) for one in answer["checks"]}


def test_all_is_well_and_nothing_is_made(crosslet: Crosslet, tmp_path: Path) -> None:
    checks = examined(crosslet)
    assert list(checks) == CHECKS
    assert {status for status, _ in checks.values()} == {"ok"}
    assert "no documents yet" in checks["store"][1]
    assert list(tmp_path.iterdir()) == []


def test_its_screen_is_one(tmp_path: Path) -> None:
    ended = on_a_terminal("doctor")
    lines = ended.screen.splitlines()
    assert (ended.status, ended.error) == (0, "")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert [line.split()[1] for line in lines if not line.startswith(" ")] == CHECKS


def test_a_damaged_model_fails(crosslet: Crosslet, tiny_model: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    with (model / "model.onnx").open("ab") as file:
        file.write(b"x")
    checks = examined(crosslet, "--model", model, status=1)
    assert checks["model"][0] == "fail"
    assert "model.onnx" in checks["model"][1]
    assert checks["store"] == ("warn", "not looked at: it needs the model")


def test_documents_are_counted_and_those_of_another_model_fail(crosslet: Crosslet, tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text('{"id": "a", "text": "b"}\n{"id": "c", "text": "d"}\n')
    crosslet("index", "build", tmp_path / "lines.jsonl")
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir() if path.suffix != ".sqlite3-shm"}
    status, said = examined(crosslet)["store"]
    assert (status, said.startswith("2 documents in 1 collections")) == ("ok", True)
    build_artifact(tmp_path / "other", seed=7)
    status, said = examined(crosslet, "--model", tmp_path / "other", status=1)["store"]
    assert (status, "`crosslet index re-embed`" in said) == ("fail", True)
    assert {name: (tmp_path / "data" / name).read_bytes() for name in before} == before


def test_a_file_that_is_no_store_fails(crosslet: Crosslet, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "documents.sqlite3").write_text("no database")
    assert examined(crosslet, status=1)["store"][0] == "fail"


@pytest.mark.parametrize("folder", ["a" * 300, "file/data"])
def test_a_folder_that_cannot_be_used_fails(crosslet: Crosslet, tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    assert examined(crosslet, "--data", tmp_path / folder, status=1)["store"][0] == "fail"


def test_a_store_that_no_start_takes_fails(crosslet: Crosslet, tmp_path: Path) -> None:
    """One that another process has, and an older copy."""
    (tmp_path / "lines.jsonl").write_text('{"id": "a", "text": "b"}\n')
    crosslet("index", "build", tmp_path / "lines.jsonl")
    older = (tmp_path / "data" / "documents.sqlite3").read_bytes()
    with closing(load_collection(Settings(), load_manifest(Settings().model))) as index:
        status, said = examined(crosslet, status=1)["store"]
        assert (status, said.startswith("another process has")) == ("fail", True)
        index.delete(["a"])
    (tmp_path / "data" / "documents.sqlite3").write_bytes(older)
    status, said = examined(crosslet, status=1)["store"]
    assert (status, "revision 1, but revision 2 was acknowledged" in said) == ("fail", True)


def test_vectors_made_ready_for_the_model_are_well(crosslet: Crosslet, tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text('{"id": "a", "text": "b"}\n')
    crosslet("index", "build", tmp_path / "lines.jsonl")
    build_artifact(tmp_path / "other", seed=7)
    with closing(load_collection(Settings(), load_manifest(Settings().model))):
        crosslet("index", "re-embed", "--model", tmp_path / "other")
    status, said = examined(crosslet, "--model", tmp_path / "other")["store"]
    assert (status, "which a start replaces by documents.next.sqlite3" in said) == ("ok", True)


def test_a_taken_port_for_metrics_and_a_missing_package_fail(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("CROSSLET_METRICS_PORT", str(taken.getsockname()[1]))
        status, said = examined(crosslet, status=1)["port"]
        assert (status, "CROSSLET_METRICS_PORT" in said) == ("fail", True)
    monkeypatch.delenv("CROSSLET_METRICS_PORT")
    monkeypatch.setenv("CROSSLET_MCP", "true")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert examined(crosslet, status=1)["mcp"][0] == "fail"


def test_the_port_is_free_taken_or_the_services(crosslet: Crosslet, tiny_model: Path, tmp_path: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, said = examined(crosslet, "--port", taken.getsockname()[1], status=1)["port"]
        assert (status, "is in use" in said) == ("fail", True)
    with live_service(tiny_model, tmp_path / "data") as client:
        checks = examined(crosslet, "--port", client.base_url.port)
        assert checks["port"] == ("ok", f"the service runs at http://127.0.0.1:{client.base_url.port}")
        assert "in use by the service" in checks["store"][1]


def test_an_open_port_on_all_addresses_is_a_warning(crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(crosslet, "--host", "0.0.0.0")["exposure"][0] == "warn"
    monkeypatch.setenv("CROSSLET_CORS_ORIGINS", "*")
    status, said = examined(crosslet)["exposure"]
    assert (status, "any page in a browser" in said) == ("warn", True)
    monkeypatch.setenv("CROSSLET_API_KEYS", "x" * 32)
    status, said = examined(crosslet, "--host", "0.0.0.0")["exposure"]
    assert (status, "TLS" in said) == ("ok", True)


def test_keys_are_counted_and_never_shown(crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = "sesame-open-sesame-open"
    monkeypatch.setenv("CROSSLET_API_KEYS", f"{key}, {key}2 write=shop, {key}3 bytes=5")
    assert examined(crosslet)["keys"] == ("ok", "1 full, 0 read-only, 2 of some collections or with limits")
    monkeypatch.setenv("CROSSLET_READ_API_KEYS", "short")
    status, said = examined(crosslet)["keys"]
    assert (status, "1 shorter than 16 characters" in said, "short," in said) == ("warn", True, False)
    monkeypatch.setenv("CROSSLET_READ_API_KEYS", f"{key} write=shop")
    assert examined(crosslet, status=1)["keys"][0] == "fail"
    monkeypatch.delenv("CROSSLET_READ_API_KEYS")
    (tmp_path / "keys").write_text(f"{key}4\n")
    (tmp_path / "keys").chmod(0o644)
    monkeypatch.setenv("CROSSLET_API_KEYS_FILE", str(tmp_path / "keys"))
    status, said = examined(crosslet)["keys"]
    assert (status, "chmod 600" in said, key in said) == ("warn", True, False)


def test_unknown_settings_and_too_little_memory_are_named(crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLET_PROT", "1")
    monkeypatch.setenv("CROSSLET_MEMORY_BUDGET", "1000000")
    checks = examined(crosslet, status=1)
    assert checks["settings"] == ("warn", "without effect: CROSSLET_PROT (did you mean CROSSLET_PORT?)")
    assert checks["memory"][0] == "fail"
    monkeypatch.setenv("CROSSLET_MEMORY_BUDGET", str(2**50))
    assert examined(crosslet)["memory"][0] == "warn"


def test_milvus_is_asked_and_not_changed(crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROSSLET_INDEX", f"milvus+lite://{tmp_path}/milvus.db")
    monkeypatch.setenv("CROSSLET_INDEX_TIMEOUT_S", "100")
    assert examined(crosslet)["store"] == ("ok", "Milvus answers; it has no documents of this model yet")
    build_artifact(tmp_path / "model")
    add_space(tmp_path / "model", "same", np.eye(DIM, DIM + 1))
    (tmp_path / "lines.jsonl").write_text('{"id": "a", "text": "b"}\n')
    monkeypatch.setenv("CROSSLET_SPACE", "same")
    crosslet("index", "build", tmp_path / "lines.jsonl", "--model", tmp_path / "model")
    assert examined(crosslet, "--model", tmp_path / "model")["store"][1].startswith("1 documents")
    monkeypatch.delenv("CROSSLET_SPACE")
    monkeypatch.setenv("CROSSLET_INDEX", "milvus://127.0.0.1:1")
    monkeypatch.setenv("CROSSLET_INDEX_TIMEOUT_S", "1")
    status, said = examined(crosslet, status=1)["store"]
    assert (status, "127.0.0.1:1" in said) == ("fail", True)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b", {"a/memory.max": "500", "a/b/memory.max": "max"}, 500),
        ("5:memory:/x", {"memory/x/memory.limit_in_bytes": "700"}, 700),
        ("0::/a", {"memory.max": "5000000"}, 2048),
        ("0::/a", {}, 2048),
    ],
)
def test_the_smallest_memory_limit_counts(tmp_path: Path, own: str, files: dict[str, str], expected: int) -> None:
    (tmp_path / "own").write_text(f"{own}\n")
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemTotal:       2 kB\n")
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory_limit(tmp_path / "root", tmp_path / "own", tmp_path / "meminfo") == expected
    assert memory_limit(tmp_path / "none", tmp_path / "own", tmp_path / "none") is None
