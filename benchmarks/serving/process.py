"""Starts a peer on chosen cores, times its first response, and ends it."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.serving.peers import ROOT, SERVERS, Peer

START_TIMEOUT_S = 180
ANSWER_TIMEOUT_S = 120
STOP_TIMEOUT_S = 15
RETRY_S = 0.005
LOG_LINES = 3  # quoted when a peer fails
OF_THE_CALLER = ("CROSSLET_", "OMP_", "MKL_", "ORT_", "MALLOC_", "TOKENIZERS_", "PYTHON", "LD_PRELOAD")  # not passed on


class PeerFailed(Exception):  # noqa: N818 - says what happened
    """A peer did not start, or returned something other than vectors; the message quotes the end of its log."""


@dataclass(frozen=True)
class Server:
    peer: Peer
    pid: int
    port: int
    cold_start_s: float  # exec to the first response
    cores: tuple[int, ...]

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed texts: (len(texts), D) float32.

        Raises: PeerFailed: the response has no vectors, or another number of them.
        """
        try:
            found_ND = self.peer.answer(post(self.port, self.peer.route, self.peer.ask(texts)))
        except (http.client.HTTPException, ValueError, LookupError, TypeError) as exc:
            raise PeerFailed(f"returned no vectors ({type(exc).__name__})") from exc
        if found_ND.ndim != 2 or len(found_ND) != len(texts):
            raise PeerFailed(f"returned an array of shape {found_ND.shape} for {len(texts)} texts")
        return found_ND


def end_in_order() -> None:
    """Make SIGTERM act like Ctrl-C, so that peers are ended: they run in their own sessions and would outlive us."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@contextmanager
def running(peer: Peer, *, folder: Path, cores: Sequence[int]) -> Iterator[Server]:
    """Run the peer on a free port, pinned to `cores`; its output goes to `folder`/logs.

    Raises: PeerFailed: it ended, or did not respond in time.
    """
    (folder / "logs").mkdir(exist_ok=True)
    log_path = folder / "logs" / f"{peer.name.replace(' ', '-')}.log"
    with tempfile.TemporaryDirectory() as scratch, log_path.open("wb") as log:
        port = free_port()
        values = {
            "bin": folder / peer.environment / "bin", "model": folder / "models" / peer.model,
            "port": port, "scratch": scratch, "servers": SERVERS,
        }  # fmt: skip
        command, variables = peer.filled(values)
        pinned = ["taskset", "--cpu-list", ",".join(map(str, cores)), *command]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OF_THE_CALLER)}
        started = time.perf_counter()
        try:
            process = subprocess.Popen(
                pinned, cwd=ROOT, env=inherited | variables, stdout=log, stderr=log, start_new_session=True
            )
        except OSError as exc:
            raise PeerFailed(f"{pinned[0]} cannot be started: {exc.strerror}") from exc
        try:
            _wait_for_answer(peer, process, port, log_path)
            yield Server(peer, process.pid, port, time.perf_counter() - started, tuple(cores))
        finally:
            _end(process)


def post(port: int, route: str, body: bytes, *, method: str = "POST") -> bytes:
    """The body of a successful response.

    Raises: PeerFailed: another status.  OSError: no response.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request(method, route, body, {"content-type": "application/json"})
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise PeerFailed(f"answered {response.status} to {route}: {content[:200].decode(errors='replace')}")
    return content


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_answer(peer: Peer, process: subprocess.Popen[bytes], port: int, log_path: Path) -> None:
    question = peer.ask(["A first question."])
    ends_at = time.monotonic() + START_TIMEOUT_S
    problem = "no connection"
    while time.monotonic() < ends_at:
        if process.poll() is not None:
            raise PeerFailed(f"ended with {process.returncode} before its first response: {_end_of(log_path)}")
        try:
            post(port, peer.route, question)
            return
        except (OSError, http.client.HTTPException, PeerFailed) as exc:
            problem = str(exc) or type(exc).__name__
            time.sleep(RETRY_S)
    raise PeerFailed(f"did not respond within {START_TIMEOUT_S} s ({problem}): {_end_of(log_path)}")


def _end_of(log_path: Path) -> str:
    lines = log_path.read_text(encoding="utf-8", errors="replace").split("\n")
    return " / ".join([line.strip() for line in lines if line.strip()][-LOG_LINES:])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the peer's session, then SIGKILL to processes that remain."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signum)
            process.wait(STOP_TIMEOUT_S)
        except ProcessLookupError:
            process.wait()
            return
        except subprocess.TimeoutExpired:
            continue
