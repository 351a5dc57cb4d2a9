"""Each client of the matrix, in its own environment, against a live service: what it gets is what our routes answer."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.clients.matrix import CLIENTS, Client
from tests.contract.conftest import BUNDLED, KEY
from tests.contract.live import live_service
from tests.openai_vocabulary import tiktoken_folder
from tests.skeleton.project import ROOT

pytestmark = pytest.mark.clients

ENVIRONMENTS = ROOT / ".venv-clients"
SCRIPTS = Path(__file__).parent / "scripts"
TEXTS = ["Wie setze ich mein Passwort zurück?", "パスワードを忘れました", "कल मौसम कैसा रहेगा?", "Kargom nerede?"]
QUERY = "I forgot my password"
INSTALL_TIMEOUT_S, RUN_TIMEOUT_S = 900, 120


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with live_service(BUNDLED, tmp_path_factory.mktemp("clients"), api_keys=KEY) as client:
        client.headers["authorization"] = f"Bearer {KEY}"
        yield client


@pytest.fixture(scope="module")
def tiktoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vocabulary of clients that encode."""
    return tiktoken_folder(tmp_path_factory.mktemp("vocabulary"))


@pytest.mark.timeout(INSTALL_TIMEOUT_S + RUN_TIMEOUT_S)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_gets_what_our_own_routes_answer(client: Client, service: httpx.Client, tiktoken: Path) -> None:
    shown = run(client, url=str(service.base_url).rstrip("/"), tiktoken=tiktoken)
    wanted = np.array(service.post("/embed", json={"inputs": TEXTS}).json())
    ranked = service.post("/rerank", json={"query": QUERY, "texts": TEXTS}).json()
    assert shown["vectors"]
    for how, vectors in shown["vectors"].items():
        np.testing.assert_allclose(np.array(vectors), wanted, atol=1e-6, err_msg=how)
    for how, ranking in shown["rankings"].items():
        assert [index for index, _ in ranking] == [hit["index"] for hit in ranked], how
        assert [score for _, score in ranking] == pytest.approx([hit["score"] for hit in ranked]), how


def run(client: Client, *, url: str, tiktoken: Path) -> dict[str, dict[str, list[list[float]]]]:
    """Run a client's script. Return what it shows."""
    folder = installed(client)
    given = {"SERVICE_URL": url, "SERVICE_KEY": KEY, "TEXTS": json.dumps(TEXTS), "QUERY": QUERY}
    given |= {"TIKTOKEN_CACHE_DIR": str(tiktoken)}
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    if client.kind == "node":
        for script in SCRIPTS.glob("*.mjs"):  # Node looks for packages beside a script
            shutil.copy(script, folder)
        command = ["node", str(folder / client.script)]
    else:
        command = [str(folder / "bin" / "python"), str(SCRIPTS / client.script)]
    ended = subprocess.run(
        command, env=kept | given, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    shown: dict[str, dict[str, list[list[float]]]] = json.loads(ended.stdout.splitlines()[-1])
    return shown


def installed(client: Client) -> Path:
    """Return a client's environment; make it if there is none of these packages."""
    folder = ENVIRONMENTS / client.script.removesuffix(".py").replace(".", "_")
    mark = folder / "installed.json"
    if mark.exists() and json.loads(mark.read_text()) == list(client.packages):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if client.kind == "node":
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed")
        commands = [["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *client.packages]]
    else:
        uv = [sys.executable, "-m", "uv", "--quiet", "--system-certs"]
        commands = [[*uv, "venv", str(folder)], [*uv, "pip", "install", "--python", str(folder), *client.packages]]
    for command in commands:
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)
    mark.write_text(json.dumps(client.packages))
    return folder
