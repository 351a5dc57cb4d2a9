"""Runs a command under strace in an empty home: whom it called, native code too, and what it left there."""

import ipaddress
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.skeleton.project import ROOT

CALLS = "connect,sendto,sendmsg,sendmmsg"
DNS_PORT = 53
TIMEOUT_S = 240
ADDRESS = re.compile(r'htons\((\d+)\)[^}]*?(?:inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)")')
RESOLVER = "io.systemd.Resolve"  # systemd's: a socket in the file system


@dataclass
class Observed:
    """What a command did.  calls: lines of strace that leave this machine or ask a resolver.  files: in its home."""

    calls: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def require_strace() -> None:
    """Fail in CI where strace cannot trace: a check that was not made must not pass. Elsewhere skip the test."""
    try:
        trial = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
        problem = trial.stderr.strip() and f"strace cannot trace here ({trial.stderr.splitlines()[0]}); a container"
        problem = problem and f"{problem} wants `--cap-add SYS_PTRACE`"
    except FileNotFoundError:
        problem = "there is no strace; `apt install strace` brings it"
    if problem:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(problem)


def environment(folder: Path, variables: Mapping[str, object]) -> dict[str, str]:
    """A user's who has set nothing: ONNX Runtime, for one, reports nothing where CI or GITHUB_ACTIONS is set."""
    home, scratch = folder / "home", folder / "tmp"
    home.mkdir()
    scratch.mkdir()
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(home), "TMPDIR": str(scratch)}
    return own | {"LANG": "C.UTF-8"} | {name: str(value) for name, value in variables.items()}


@contextmanager
def traced(folder: Path, command: Sequence[object], **variables: object) -> Iterator[subprocess.Popen[bytes]]:
    """The command while it runs, in a process group of its own; strace itself ignores what is sent to the group.

    Call `observed` once it has ended.
    """
    require_strace()
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(folder / "calls"), "-e", f"trace={CALLS}"]
    process = subprocess.Popen(
        [*strace, *map(str, command)], cwd=folder, env=environment(folder, variables), start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def observed(folder: Path) -> Observed:
    """What the command of `traced` did, whoever of its processes and threads did it."""
    lines = (folder / "calls").read_text(encoding="utf-8", errors="replace").splitlines()
    home = folder / "home"
    files = sorted(str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir())
    return Observed([line for line in lines if _leaves(line)], files)


def observe(folder: Path, command: Sequence[object], **variables: object) -> Observed:
    """Run a command to its end, which must be a good one."""
    with traced(folder, command, **variables) as process:
        assert process.wait(TIMEOUT_S) == 0
    return observed(folder)


def _leaves(line: str) -> bool:
    for port, *addresses in ADDRESS.findall(line):
        address = ipaddress.ip_address("".join(addresses).removeprefix("::ffff:"))  # gRPC's way to write IPv4
        if int(port) == DNS_PORT or not address.is_loopback:
            return True
    return RESOLVER in line
