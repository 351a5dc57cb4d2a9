"""Runs a service as a subprocess, with default settings unless given others; reads its log and its memory."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.endurance.wire import HOST

READY_TIMEOUT_S = 120
SERVICE = ("-m", "service")


class NoService(Exception):  # noqa: N818 - named after what happened
    """The service does not start, or does not respond while idle."""


class ServiceProcess:
    """A running `python -m service`, its port, and its log."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    @property
    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def logged_statuses(self, route: str) -> Counter[int]:
        lines = map(json.loads, self._log.read_text(encoding="utf-8").splitlines())
        return Counter(line["status"] for line in lines if line["event"] == "request" and line["route"] == route)


def variables(**settings: object) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CROSSLET_")}
    return inherited | {f"CROSSLET_{name.upper()}": str(value) for name, value in settings.items()}


@contextmanager
def running_service(*, program: Sequence[str] = SERVICE, **settings: object) -> Iterator[ServiceProcess]:
    """Start a service on a free port and wait until it is ready; kill it on exit if it still runs.

    Args:   program: arguments of the Python interpreter.
    Raises: NoService: it ended, or took too long.
    """
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        environment = variables(**{"port": port, "data": Path(folder) / "data"} | settings)
        log = Path(folder) / "service.log"
        with log.open("wb") as stream:
            process = subprocess.Popen([sys.executable, *program], env=environment, stderr=stream)
        try:
            _await_ready(process, port, log)
            yield ServiceProcess(process, port, log)
        finally:
            process.kill()
            process.wait()


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            lines = log.read_text(encoding="utf-8").splitlines()
            raise NoService(f"the service ended with {process.returncode} before it was ready: {lines[-1:]}")
        try:
            if httpx.get(f"http://{HOST}:{port}/ready", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise NoService(f"the service was not ready after {READY_TIMEOUT_S} s")
