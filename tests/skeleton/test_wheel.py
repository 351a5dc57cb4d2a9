"""The wheel: what it holds beside modules, and that it serves where there is no checkout."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest

from service.model.artifact import load_manifest
from service.settings import BUNDLED_RERANKER
from service.version import VERSION
from tests.contract.live import wait_until_ready
from tests.ports import reserved_port
from tests.skeleton.project import ROOT, tracked_files

PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def clean_environment() -> dict[str, str]:
    """Without this project's settings, and without its folder on the path of modules."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("CROSSLET_", "PYTHON"))}


def run(*command: object, cwd: Path) -> str:
    arguments = [str(part) for part in command]
    ended = subprocess.run(
        arguments, cwd=cwd, env=clean_environment(), capture_output=True, text=True, check=False, timeout=1200
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def built(folder: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_page_and_the_bundled_models(tmp_path: Path) -> None:
    wheel = built(tmp_path)
    files = {path.relative_to(ROOT).as_posix() for path in tracked_files()}
    page = {name for name in files if name.startswith("service/web/")}
    models = {f"service/{name}" for name in files if name.startswith(("models/default/", "models/reranker/"))}
    assert "service/web/index.html" in page
    assert {f"service/models/{name}/model.onnx" for name in ("default", "reranker")} <= models
    held = set(ZipFile(wheel).namelist())
    assert page | models <= held
    assert {name for name in held if name.startswith("service/models/")} == models
    assert wheel.name == f"crosslet-{VERSION}-py3-none-any.whl"


@contextmanager
def serving(command: Path, folder: Path, **settings: str) -> Iterator[httpx.Client]:
    """`crosslet serve`, with nothing set but its port and what is named."""
    named = {f"CROSSLET_{name.upper()}": value for name, value in settings.items()}
    with reserved_port() as port:
        process = subprocess.Popen(
            [command, "serve"], cwd=folder, env=clean_environment() | named | {"CROSSLET_PORT": str(port)}
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100, trust_env=False) as client:
                wait_until_ready(client, process)
                yield client
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_installed_wheel_serves_from_an_empty_folder(tmp_path: Path) -> None:
    venv, empty = tmp_path / "venv", tmp_path / "empty"
    empty.mkdir()
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    run(venv / "bin/python", *PIP, built(tmp_path), cwd=empty)
    assert run(venv / "bin/crosslet", "--version", cwd=empty) == f"crosslet {VERSION}\n"
    assert "torch" not in run(venv / "bin/python", "-m", "pip", "list", cwd=empty)
    with serving(venv / "bin/crosslet", empty) as client:
        documents = [
            {"id": "a", "text": "Wie setze ich mein Passwort zurück?"},
            {"id": "b", "text": "Die Bank ist zu."},
        ]
        assert client.put("/documents", json={"documents": documents}).status_code == 200
        answer = client.post("/search", json={"query": "I forgot my password", "top_k": 1}).json()
        assert [result["id"] for result in answer["results"]] == ["a"]
        assert "<html" in client.get("/", headers={"accept": "text/html"}).text
        assert client.get("/info").json()["version"] == VERSION
        assert client.get("/info").json()["reranker"] is None
    with serving(venv / "bin/crosslet", empty, reranker="bundled") as client:
        assert client.get("/info").json()["reranker"]["fingerprint"] == load_manifest(BUNDLED_RERANKER).fingerprint
        answer = client.post("/search", json={"query": "I forgot my password", "rerank": True}).json()
        assert [result["id"] for result in answer["results"]] == ["a", "b"]
    assert (empty / "data" / "documents.sqlite3").is_file()
