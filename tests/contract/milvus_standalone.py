"""A Milvus standalone server in a process of its own; `make test-milvus` installs it."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from service.document_index import load_collection
from service.documents.interface import DocumentIndex
from service.errors import StartError
from service.settings import Settings
from tests.service.documents.stores import DIM
from tests.skeleton.project import ROOT

Open = Callable[..., DocumentIndex]  # opens the documents of a model in the test's engine
PORT = 19530
TOKEN = "root:Milvus"  # noqa: S105 - of every new server
START_TIMEOUT_S = 180


class MilvusStandalone:
    """Starts and kills the server. url, token: of a server that runs already, in its place."""

    def __init__(self, folder: Path, *, url: str = "") -> None:
        self.url = url or f"milvus://127.0.0.1:{PORT}"
        self.token = "" if url else TOKEN
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and return at once."""
        python = ROOT / ".venv-milvus" / "bin" / "python"
        command = [python, ROOT / "scripts" / "milvus_server.py", self._folder, str(PORT)]
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """End the process by SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def settings(self, **options: Any) -> Settings:
        """Return settings for this server."""
        return Settings(**{"index": self.url, "index_token": self.token} | options)

    def wait(self) -> None:
        """Wait until it answers."""
        until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                load_collection(self.settings(), manifest_of("ff")).close()
            except StartError:
                assert time.monotonic() < until, (self._folder / "log").read_text()[-2000:]
                time.sleep(1)
            else:
                return


def manifest_of(model: str) -> Any:
    """Return what an index asks of the manifest of the model whose fingerprint begins so."""
    return SimpleNamespace(fingerprint=model.ljust(64, "0"), dim=DIM)
