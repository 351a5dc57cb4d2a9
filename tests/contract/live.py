"""A real service process on a free loopback port, for tests that speak HTTP to it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.ports import reserved_port

READY_TIMEOUT_S = 120


@contextmanager
def live_service(model: Path, data: Path, **settings: object) -> Iterator[httpx.Client]:
    """`python -m service` on `model`, its documents under `data`; killed with SIGKILL on leaving, as a crash would."""
    with reserved_port() as port:
        given = {"model": model, "data": data, "port": port} | settings
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CROSSLET_")}
        environment = inherited | {f"CROSSLET_{name.upper()}": str(value) for name, value in given.items()}
        process = subprocess.Popen([sys.executable, "-m", "service"], env=environment)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100, trust_env=False) as client:
                wait_until_ready(client, process)
                yield client
        finally:
            process.kill()
            process.wait()


def wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the service ended with {process.returncode} before it was ready")
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"the service was not ready after {READY_TIMEOUT_S} s")
