"""A real service process on a free loopback port, for tests that speak HTTP to it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.ports import reserved_port

READY_TIMEOUT_S = 120


def clean_environment(**settings: object) -> dict[str, str]:
    """This process's variables, with these settings of crosslet and no others."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CROSSLET_")}
    return inherited | {f"CROSSLET_{name.upper()}": str(value) for name, value in settings.items()}


@contextmanager
def started(
    command: Sequence[str | Path],
    env: dict[str, str],
    *,
    stop: Callable[[subprocess.Popen[bytes]], None] = subprocess.Popen.kill,
    **options: Any,
) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    """A client of a service that is ready on a free port, and its process, which `stop` ends on leaving.

    options: of `subprocess.Popen`.
    """
    with reserved_port() as port:
        process = subprocess.Popen(command, env=env | {"CROSSLET_PORT": str(port)}, **options)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100, trust_env=False) as client:
                wait_until_ready(client, process)
                yield client, process
        finally:
            stop(process)
            process.wait(60)


@contextmanager
def live_service(model: Path, data: Path, **settings: object) -> Iterator[httpx.Client]:
    """`python -m service` on `model`, its documents under `data`; killed with SIGKILL on leaving, as a crash would."""
    env = clean_environment(**{"model": model, "data": data} | settings)
    with started([sys.executable, "-m", "service"], env) as (client, _):
        yield client


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
