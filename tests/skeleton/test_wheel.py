"""The wheel: what it holds and under which names, and that it works where there is no checkout."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest
from packaging.utils import canonicalize_name

from scripts.wheel_names import renamed
from service.model.artifact import load_manifest
from service.settings import BUNDLED_RERANKER
from service.version import VERSION
from tests.contract.live import clean_environment, started
from tests.skeleton.project import ROOT, locked_versions, tracked_files

PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def outside(**settings: str) -> dict[str, str]:
    """A clean environment, without this project's folder on the path of modules."""
    return {name: value for name, value in clean_environment(**settings).items() if not name.startswith("PYTHON")}


def run(*command: object, cwd: Path) -> str:
    arguments = [str(part) for part in command]
    ended = subprocess.run(arguments, cwd=cwd, env=outside(), capture_output=True, text=True, check=False, timeout=1200)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def built(folder: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_page_and_the_bundled_models(tmp_path: Path) -> None:
    wheel = built(tmp_path)
    files = {path.relative_to(ROOT).as_posix() for path in tracked_files()}
    sources = {f"crosslet/{name}" for name in files if name.startswith("service/")}
    public = {name for name in files if name.startswith("crosslet/")}
    models = {f"crosslet/service/{name}" for name in files if name.startswith(("models/default/", "models/reranker/"))}
    assert "crosslet/service/web/index.html" in sources
    assert "crosslet/py.typed" in public
    assert {f"crosslet/service/models/{name}/model.onnx" for name in ("default", "reranker")} <= models
    held = set(ZipFile(wheel).namelist())
    assert {name for name in held if ".dist-info/" not in name} == sources | public | models
    assert wheel.name == f"crosslet-{VERSION}-py3-none-any.whl"
    (metadata,) = (name for name in held if name.endswith("/METADATA"))
    assert "Requires-Dist: torch" not in ZipFile(wheel).read(metadata).decode()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from service.a import b", "from crosslet.service.a import b"),
        ("from service import a", "from crosslet.service import a"),
        ("if x:\n    import service.a  # noqa\n", "if x:\n    import crosslet.service.a  # noqa\n"),
        ("from services import service", "from services import service"),
        ("import os, sys\nservice = 1; from service.a import (\n    service,\n)", None),
        ('"""from service.a import b"""', '"""from service.a import b"""'),
    ],
)
def test_imports_alone_are_renamed(source: str, expected: str | None) -> None:
    wanted = source.replace("from service.a", "from crosslet.service.a") if expected is None else expected
    assert renamed(source, "a.py") == wanted


@pytest.mark.parametrize("source", ["import service", "import os, service.a", "from \\\n  service.a import b"])
def test_an_import_that_cannot_be_renamed_is_an_error(source: str) -> None:
    with pytest.raises(ValueError, match=r"line 1|write `from service import"):
        renamed(source, "a.py")


DECOY = 'raise SystemExit("another program\'s module was imported")'
PROGRAM = """
import sys
from pathlib import Path
from crosslet import Encoder, Index
with Index("notes", Encoder()) as index:
    index.put([{"id": "a", "text": "Wie setze ich mein Passwort zurück?"}, {"id": "b", "text": "Die Bank ist zu."}])
    print([hit.id for hit in index.search("I forgot my password", top_k=1)])
print("service" in sys.modules, Path(sys.modules["crosslet"].__file__).is_relative_to(Path("..", "wheel").resolve()))
"""


def test_the_wheel_runs_beside_other_packages_called_service(tmp_path: Path) -> None:
    ZipFile(built(tmp_path)).extractall(tmp_path / "wheel")
    work = tmp_path / "work"
    work.mkdir()
    for name in ("service", "export", "training"):
        (work / f"{name}.py").write_text(DECOY, encoding="utf-8")
    (work / "program.py").write_text(PROGRAM, encoding="utf-8")
    environment = outside() | {"PYTHONPATH": str(tmp_path / "wheel")}
    for command, expected in {
        ("program.py",): "['a']\nFalse True\n",
        ("-m", "crosslet", "similarity", "a", "a", "--json"): '{"score":1.0,"text":"a"}\n',
    }.items():
        ended = subprocess.run(
            [sys.executable, *command], cwd=work, env=environment, capture_output=True, text=True, check=False
        )
        assert (ended.stdout, ended.returncode) == (expected, 0), ended.stderr


@contextmanager
def serving(command: Path, folder: Path, **settings: str) -> Iterator[httpx.Client]:
    """`crosslet serve`, with nothing set but its port and what is named."""
    with started([command, "serve"], outside(**settings), stop=subprocess.Popen.terminate, cwd=folder) as (client, _):
        yield client


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_installed_wheel_serves_from_an_empty_folder(tmp_path: Path) -> None:
    venv, empty = tmp_path / "venv", tmp_path / "empty"
    empty.mkdir()
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    run(venv / "bin/python", *PIP, built(tmp_path), cwd=empty)
    assert run(venv / "bin/crosslet", "--version", cwd=empty) == f"crosslet {VERSION}\n"
    found = "print([name for name in ('crosslet', 'service', 'training', 'export') if find_spec(name)])"
    code = f"from importlib.util import find_spec; {found}"
    assert run(venv / "bin/python", "-c", code, cwd=empty) == "['crosslet']\n"
    assert "evaluate" not in run(venv / "bin/crosslet", "--help", cwd=empty)
    assert '"ok":true' in run(venv / "bin/crosslet", "doctor", "--port", "0", cwd=empty)
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


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_release_lists_what_an_installation_holds(tmp_path: Path) -> None:
    run(ROOT / "scripts" / "release.sh", sys.executable, tmp_path, cwd=ROOT)
    bill = json.loads((tmp_path / f"crosslet-{VERSION}.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["metadata"]["tools"]["components"][0]["name"]) == ("CycloneDX", "cyclonedx-py")
    held = {canonicalize_name(one["name"]): one["version"] for one in bill["components"]}
    assert held.pop("crosslet") == VERSION
    locked = locked_versions("service.txt")
    assert {name: version for name, version in held.items() if version not in locked.get(name, set())} == {}
    assert {"fastapi", "onnxruntime", "faiss-cpu"} <= held.keys()
    sums = dict(reversed(line.split("  ")) for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() == {path.name for path in tmp_path.iterdir()} - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
