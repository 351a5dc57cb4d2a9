"""A real server that speaks Milvus' protocol, in a process of its own: milvus-lite's."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import reserved_port

START_TIMEOUT_S = 90


@dataclass(frozen=True)
class MilvusServer:
    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        return f"milvus://127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def milvus_server(folder: Path, port: int | None = None) -> Iterator[MilvusServer]:
    """Serves what is in the folder; killed on leaving."""
    if port is None:
        with reserved_port() as port, milvus_server(folder, port) as server:
            yield server
        return
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder), "--port", str(port)]
    server = MilvusServer(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), port)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert server.process.poll() is None, "milvus-lite ended before it listened"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield server
    finally:
        server.kill()
