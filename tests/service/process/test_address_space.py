"""Starts and requests under a limit on address space (ulimit -v)."""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from service.cli import main as cli
from service.cli.arguments import Subcommand
from service.errors import StorageFull
from service.process.address_space import check_documents
from service.settings import BUNDLED_MODEL
from tests.artifacts import TEXTS
from tests.ports import reserved_port
from tests.service.process.test_process import ROOT, documents, environment

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
    command = [*limited(4 * 1024 * MIB), sys.executable, "-c", script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)


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
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=60)


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
    done = subprocess.run(
        [
            *limited(300 * MIB),
            sys.executable,
            "-c",
            COMMAND,
            *(argument.format(file=tmp_path / "a.txt") for argument in arguments),
        ],
        cwd=ROOT,
        env=environment(model=tiny_model, data=tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("crosslet: the process may map 314572800 bytes of memory (ulimit -v), too few")


@contextmanager
def starting(model: Path, data: Path, size_bytes: int) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """A service that may map so much; it is ready, or has ended."""
    with reserved_port() as port, (data.parent / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [*limited(size_bytes), sys.executable, "-m", "service"],
            cwd=ROOT,
            env=environment(model=model, data=data, port=port, workers=2),
            stderr=log,
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100, trust_env=False) as client:
                while process.poll() is None and not _is_ready(client):
                    time.sleep(0.05)
                yield process, client
        finally:
            process.kill()
            process.wait(60)


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/ready").status_code == 200
    except httpx.TransportError:
        return False


def test_a_start_that_could_not_take_a_document_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    """FAISS alone maps 300 MB as it is loaded, with the first document."""
    with starting(tiny_model, tmp_path / "data", 500 * MIB) as (process, _):
        assert process.returncode == 2
    said = (tmp_path / "service.log").read_text()
    assert "crosslet: the process may map 524288000 bytes of memory (ulimit -v), too few" in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_any_limit_is_a_refused_start_or_a_service_that_stays(tiny_model: Path, tmp_path: Path) -> None:
    """Python itself cannot start below some 40 MiB."""
    outcomes = set()
    for size_mib in (*range(60, 1000, 60), *range(1000, 1200, 20), 1500, 4000):
        with starting(tiny_model, tmp_path / f"{size_mib}", size_mib * MIB) as (process, client):
            if process.poll() is not None:
                said = (tmp_path / "service.log").read_text()
                assert (process.returncode, said.count("(ulimit -v), too few")) == (2, 1), f"{size_mib} MiB: {said}"
                outcomes.add("refused")
                continue
            puts = [client.put("/documents", json={"documents": documents()}).status_code for _ in range(3)]
            assert set(puts) <= {200, 503, 507}, f"{size_mib} MiB"
            assert client.post("/search", json={"query": "hallo"}).status_code == 200
            assert client.post("/embed", json={"inputs": ["wort " * 19_000] * 20}).status_code == 200
            process.terminate()
            assert process.wait(60) == 0, f"{size_mib} MiB"
            outcomes.add("served")
    assert outcomes == {"refused", "served"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_documents_beyond_ulimit_are_507(tmp_path: Path) -> None:
    """A little over the least limit that starts there is room for few documents of the bundled model."""
    low, high = 500, 4000
    while high - low > 20:
        middle = (low + high) // 2
        with starting(BUNDLED_MODEL, tmp_path / f"{middle}", middle * MIB) as (process, _):
            low, high = (low, middle) if process.poll() is None else (middle, high)
    with starting(BUNDLED_MODEL, tmp_path / "data", (high + 20) * MIB) as (process, client):
        stored, refused = 0, ""
        while not refused and stored < 512 * 400:
            batch = [{"id": f"{stored + number}", "text": f"{TEXTS[number % 8]} {number}"} for number in range(512)]
            answer = client.put("/documents", json={"documents": batch})
            assert answer.status_code in {200, 507}
            refused = "" if answer.status_code == 200 else answer.json()["error"]
            stored += 512 if answer.status_code == 200 else 0
        assert "(ulimit -v); nothing was changed" in refused
        assert client.post("/search", json={"query": "hallo"}).status_code == 200
        assert client.get("/documents").json()["total"] == stored
        process.terminate()
        assert process.wait(60) == 0
