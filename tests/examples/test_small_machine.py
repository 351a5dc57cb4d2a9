"""examples/small_machine.sh: one core and 512 MiB, while clients send what they can hardly take."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import httpx
import pytest

from tests.contract.live import clean_environment, started
from tests.parallel_text import LANGUAGES, OBJECTS, SUBJECTS, VERBS, sentence
from tests.skeleton.project import ROOT

MIB = 2**20
LIMIT_BYTES = 512 * MIB
MOST_RESIDENT_BYTES = 256 * MIB  # examples/README.md: 185 MiB
CLIENTS = 16  # half of them embed, half search
REQUESTS = 25  # of each client
CHOICES = list(product(range(len(SUBJECTS)), range(len(VERBS)), range(len(OBJECTS))))
TEXTS = [sentence(choice, language) for choice in CHOICES for language in LANGUAGES]


@contextmanager
def small_machine(checkout: Path) -> Iterator[tuple[httpx.Client, int]]:
    """The example's process on one core with RLIMIT_DATA: a client of it, and its id."""
    (checkout / "examples").symlink_to(ROOT / "examples")
    (checkout / ".venv").symlink_to(sys.prefix)
    core = max(os.sched_getaffinity(0))
    command = ["bash", "-c", f"ulimit -d {LIMIT_BYTES // 1024} && exec examples/small_machine.sh"]
    env = clean_environment(model=ROOT / "models/default", data=checkout / "data")
    on_core = partial(os.sched_setaffinity, 0, {core})
    with started(command, env, cwd=checkout, preexec_fn=on_core) as (client, process):
        yield client, process.pid


def client_of(client: httpx.Client, number: int) -> Counter[int]:
    """Send `REQUESTS` one after the other; the answers' status codes."""
    found: Counter[int] = Counter()
    for request in range(REQUESTS):
        start = 16 * (number * REQUESTS + request) % (len(TEXTS) - 16)
        if number % 2:
            answer = client.post("/search", json={"query": TEXTS[start], "top_k": 10})
        else:
            answer = client.post("/embed", json={"inputs": TEXTS[start : start + 16]})
        found[answer.status_code] += 1
    return found


def status_bytes(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


@pytest.mark.slow
@pytest.mark.timeout(900)  # one core, which others may use too
def test_half_a_gigabyte_answers_or_refuses_each_request(tmp_path: Path) -> None:
    with small_machine(tmp_path) as (client, pid):
        limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
        assert f"Max data size {LIMIT_BYTES} {LIMIT_BYTES} bytes" in " ".join(limits.split())
        for start in range(0, 2000, 200):
            documents = [{"id": str(row), "text": TEXTS[row]} for row in range(start, start + 200)]
            assert client.put("/documents", json={"documents": documents}).status_code == 200
        with ThreadPoolExecutor(CLIENTS) as clients:
            answers = sum(clients.map(lambda number: client_of(client, number), range(CLIENTS)), Counter())
        peak, private = status_bytes(pid, "VmHWM"), status_bytes(pid, "VmData")
        assert answers.total() == CLIENTS * REQUESTS
        assert set(answers) <= {200, 429}
        assert answers[200] > CLIENTS * REQUESTS / 2
        assert peak < MOST_RESIDENT_BYTES
        assert private < LIMIT_BYTES
        assert client.get("/ready").status_code == 200
        print(f"{answers}, peak resident {peak / MIB:.0f} MiB, private {private / MIB:.0f} MiB")
