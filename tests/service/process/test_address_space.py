"""Starts and requests under a limit on address space (ulimit -v)."""

import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from service.cli import main as cli
from service.cli.arguments import Subcommand
from service.errors import StorageFull
from service.process.address_space import check_documents
from service.settings import BUNDLED_MODEL
from tests.artifacts import TEXTS
from tests.service.process.test_process import Service, documents, run, running

MIB = 2**20
COMMAND = "import sys; from service.cli.main import main; sys.exit(main())"


def limited(size_bytes: int) -> list[str]:
    """A command that runs another one, which may map so much."""
    return ["sh", "-c", f'ulimit -v {size_bytes // 1024} && exec "$@"', "sh"]


def tried(load: str) -> subprocess.CompletedProcess[str]:
    """A process that may map 4 GiB and checks a start; `load` is what the start runs."""
    script = f"""
import mmap, os, signal
from service.process.address_space import check_start
from service.errors import StartError
def load():
    {load}
try:
    check_start(load, room_bytes=2**30)
    print("started")
except StartError as exc:
    print(exc)
"""
    return run("-c", script, prefix=limited(4 * 1024 * MIB))


@pytest.mark.parametrize(
    "load",
    [
        "raise MemoryError",
        "raise ImportError('failed to map segment from shared object')",
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "print('OpenBLAS error', flush=True); os.abort()",
        "mmap.mmap(-1, 3 * 2**30)",  # fits into the process's own limit, but not beside the room
    ],
)
def test_start_that_would_crash_is_refused_in_a_sentence(load: str) -> None:
    done = tried(load)
    assert done.stdout.startswith("the process may map 4294967296 bytes of memory (ulimit -v), too few")
    assert "keep 1073741824 for requests" in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_the_sentence_of_a_refusal_that_has_one_stays() -> None:
    assert tried("raise StartError('no model in x')").stdout == "no model in x\n"


def test_a_start_that_fits_goes_on() -> None:
    assert tried("mmap.mmap(-1, 2**30)").stdout == "started\n"


def test_nothing_is_tried_where_nothing_is_limited() -> None:
    script = "from service.process.address_space import check_start; check_start(lambda: 1 / 0, room_bytes=1)"
    assert run("-c", script).returncode == 0


def test_documents_leave_the_room_of_requests() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    mapped_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (mapped_bytes + 1024 * MIB, before[1]))
        check_documents(256 * MIB, room_bytes=512 * MIB)
        with pytest.raises(StorageFull, match=rf"the limit is {mapped_bytes + 1024 * MIB} \(ulimit -v\)"):
            check_documents(768 * MIB, room_bytes=512 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    check_documents(2**60, room_bytes=0)


def test_a_command_that_runs_out_of_memory_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*_: object) -> None:
        bytearray(2**62)

    monkeypatch.setitem(cli.SUBCOMMANDS, "info", Subcommand(too_much, "takes too much"))
    assert cli.main(["info"]) == 2
    assert capsys.readouterr().err == "crosslet: there is not enough memory for this command; see `ulimit -v`\n"


@pytest.mark.parametrize("arguments", [["embed", "hallo"], ["search", "hallo"], ["dedup", "{file}"]])
def test_a_command_with_too_little_is_one_sentence(arguments: list[str], tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hallo\n")
    given = (argument.format(file=tmp_path / "a.txt") for argument in arguments)
    done = run("-c", COMMAND, *given, prefix=limited(300 * MIB), model=tiny_model, data=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("crosslet: the process may map 314572800 bytes of memory (ulimit -v), too few")


@contextmanager
def starting(model: Path, data: Path, size_bytes: int) -> Iterator[Service | None]:
    """A service that may map so much; None: its start was refused."""
    with ExitStack() as stack:
        try:
            service = stack.enter_context(running(model, data, prefix=limited(size_bytes)))
        except AssertionError as exc:
            if "ended with 2" not in str(exc):
                raise
            service = None
        yield service


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_any_limit_is_a_refused_start_or_a_service_that_stays(tiny_model: Path, tmp_path: Path) -> None:
    """Python itself cannot start below some 40 MiB."""
    outcomes = set()
    for size_mib in (*range(60, 1000, 60), *range(1000, 1200, 20), 1500, 4000):
        with starting(tiny_model, tmp_path / f"{size_mib}", size_mib * MIB) as service:
            if service is None:
                outcomes.add("refused")
                assert (tmp_path / "service.log").read_text().splitlines()[-1].count("(ulimit -v), too few") == 1
                continue
            client = service.client
            puts = [client.put("/documents", json={"documents": documents()}).status_code for _ in range(3)]
            assert set(puts) <= {200, 503, 507}, f"{size_mib} MiB"
            assert client.post("/search", json={"query": "hallo"}).status_code == 200
            assert client.post("/embed", json={"inputs": ["wort " * 19_000] * 20}).status_code == 200
            assert service.stop(signal.SIGTERM) == 0, f"{size_mib} MiB"
            outcomes.add("served")
    assert outcomes == {"refused", "served"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_documents_beyond_ulimit_are_507(tmp_path: Path) -> None:
    """A little over the least limit that starts there is room for few documents of the bundled model."""
    low, high = 500, 4000
    while high - low > 20:
        middle = (low + high) // 2
        with starting(BUNDLED_MODEL, tmp_path / f"{middle}", middle * MIB) as service:
            low, high = (middle, high) if service is None else (low, middle)
    with ExitStack() as stack:
        for spare in (20, 40, 60, 80):  # what a start takes varies by some MiB
            data = tmp_path / f"data{spare}"
            service = stack.enter_context(starting(BUNDLED_MODEL, data, (high + spare) * MIB))
            if service is not None:
                break
        assert service is not None
        client, stored, refused = service.client, 0, ""
        while not refused and stored < 512 * 400:
            batch = [{"id": f"{stored + number}", "text": f"{TEXTS[number % 8]} {number}"} for number in range(512)]
            answer = client.put("/documents", json={"documents": batch})
            assert answer.status_code in {200, 507}
            refused = "" if answer.status_code == 200 else answer.json()["error"]
            stored += 512 if answer.status_code == 200 else 0
        assert "(ulimit -v); nothing was changed" in refused
        assert client.post("/search", json={"query": "hallo"}).status_code == 200
        assert client.get("/documents").json()["total"] == stored
        assert service.stop(signal.SIGTERM) == 0
