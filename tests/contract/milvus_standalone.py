"""A Milvus standalone server in a process of its own; `make test-milvus` installs it."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
DISK_BYTES = 1 << 30
TOKEN = "root:Milvus"  # noqa: S105 - of every new server
START_TIMEOUT_S = 180


class MilvusStandalone:
    """Starts and kills the server. url, token: of a server that runs already, in its place."""

    def __init__(self, folder: Path, *, url: str = "", port: int = PORT) -> None:
        self.url = url or f"milvus://127.0.0.1:{port}"
        self._port = port
        self.token = "" if url else TOKEN
        self._folder = folder
        self.has_own_disk = False
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and return at once. Where mounts are allowed, its data are on a small disk."""
        data = self._folder / "data"
        if not data.exists():
            data.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", data]
            self.has_own_disk = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        python = ROOT / ".venv-milvus" / "bin" / "python"
        command = [python, ROOT / "scripts" / "milvus_server.py", self._folder, str(self._port)]
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Leave no room on the disk of its data."""
        assert self.has_own_disk
        filling = self._folder / "data" / "filling"
        with filling.open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        try:
            yield
        finally:
            filling.unlink()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the server do nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def slowed(self) -> Iterator[None]:
        """Let the server work a quarter of the time, in turns of 0.1 s."""
        ended = threading.Event()

        def pause() -> None:
            while not ended.wait(0.1):
                with self.stopped():
                    time.sleep(0.3)

        pausing = threading.Thread(target=pause)
        pausing.start()
        try:
            yield
        finally:
            ended.set()
            pausing.join()

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
