"""Kills a process at random moments while it writes to a collection, then checks the collection."""

import json
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.endurance.small_disk import SmallDisk
from benchmarks.endurance.writer import NO_START, open_collection, vector_of
from service.documents.interface import PageRequest, Query
from service.offline.repair import verify
from service.offline.store_file import open_store_file

EXACT_ROWS = 300  # low, so that kills also interrupt index builds and snapshots
LONGEST_RUN_S = 1.0
START_TIMEOUT_S = 120
MOST_ROOM_BYTES = 600_000  # free space of a nearly full disk
DAMAGE = ("none", "none", "truncate", "flip")  # done to an index file between two runs


@dataclass
class Crashes:
    rounds: int = 0
    changes: int = 0  # acknowledged
    refused: int = 0  # changes refused because the disk was full
    not_opened: int = 0  # starts that failed because the disk was full
    cut: int = 0  # changes interrupted by a kill
    kept: int = 0  # interrupted changes that were complete afterwards
    damaged: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        return (
            f"kills           {self.rounds}, with {self.changes} changes acknowledged in all\n"
            f"disk full       {self.refused} changes refused, {self.not_opened} starts failed\n"
            f"interrupted     {self.cut} changes, of which {self.kept} were complete afterwards, the others absent\n"
            f"damage          {dict(self.damaged)} of index files between runs"
        )


def crash(folder: Path, *, rounds: int, disk: SmallDisk | None = None) -> Crashes:
    """Write, kill and check one store, `rounds` times.

    After each kill, the store must hold exactly the acknowledged documents, with their texts and vectors. The
    interrupted change must be complete or absent, the index must find every document, and `verify` must find nothing.
    Between runs an index file is damaged.

    Args: disk: the file system of `folder`, kept nearly full while a writer runs.
    """
    generator, found = random.Random(0), Crashes()
    state: dict[str, str] = {}
    for number in range(rounds):
        if disk is not None:
            disk.fill(but_for=generator.randrange(MOST_ROOM_BYTES))
        under_way = _run_and_kill(folder, number, state, found, generator)
        if disk is not None:
            disk.empty()
        _damage(folder, found, generator)
        state = _look(folder, state, under_way, found, number)
        found.rounds += 1
    if not found.changes:
        found.faults.append("no change was acknowledged: nothing was tested")
    return found


def _run_and_kill(
    folder: Path, seed: int, state: dict[str, str], found: Crashes, generator: random.Random
) -> dict[str, Any] | None:
    """Let a writer write briefly, then kill it; returns the unacknowledged change, if any."""
    command = [sys.executable, "-m", "benchmarks.endurance.writer", str(folder), str(seed), str(EXACT_ROWS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        killer = threading.Timer(START_TIMEOUT_S, process.kill)
        killer.start()
        under_way: dict[str, Any] | None = None
        is_ready = False
        for line in process.stdout:
            if line == "ready\n":
                is_ready = True
                killer.cancel()
                killer = threading.Timer(generator.uniform(0, LONGEST_RUN_S), process.kill)
                killer.start()
            elif line == "done\n" and under_way is not None:
                _apply(state, under_way)
                found.changes += 1
                under_way = None
            elif line == "no room\n":
                found.refused += 1
                under_way = None
            elif line.endswith("\n"):
                under_way = json.loads(line)
        killer.cancel()
        if process.wait() == NO_START:
            found.not_opened += 1
        elif process.returncode != -signal.SIGKILL:
            found.faults.append(f"the writer of seed {seed} exited with {process.returncode} before the kill")
        elif not is_ready:
            found.faults.append(f"the writer of seed {seed} had not opened the store after {START_TIMEOUT_S} s")
    return under_way


def _apply(state: dict[str, str], change: dict[str, Any]) -> None:
    state.update(change.get("put", {}))
    for id_ in change.get("delete", []):
        state.pop(id_, None)


def _damage(folder: Path, found: Crashes, generator: random.Random) -> None:
    files = sorted(folder.glob("index*"))
    kind = generator.choice(DAMAGE)
    if kind == "none" or not files:
        return
    path = generator.choice(files)
    data = bytearray(path.read_bytes())
    if not data:
        return
    place = generator.randrange(len(data))
    if kind == "flip":
        data[place] ^= 1 << generator.randrange(8)
    path.write_bytes(data if kind == "flip" else data[:place])
    found.damaged[kind] += 1


def _look(
    folder: Path, state: dict[str, str], under_way: dict[str, Any] | None, found: Crashes, number: int
) -> dict[str, str]:
    """Compare the store with the acknowledged changes; returns its documents."""
    collection = open_collection(folder, exact_rows=EXACT_ROWS)
    try:
        here: dict[str, str] = {}
        after_row: int | None = 0
        while after_row is not None:
            page = collection.page(PageRequest(after_row=after_row, limit=1000, max_chars=10**7))
            for document in page.documents:
                if document.id in here or document.metadata != {"text": document.text}:
                    found.faults.append(f"round {number}: {document.id} is duplicated or has wrong metadata")
                here[document.id] = document.text
            after_row = page.next_row
        with_change = dict(state)
        if under_way is not None:
            found.cut += 1
            _apply(with_change, under_way)
            found.kept += here == with_change != state
        if here not in (state, with_change):
            found.faults.append(f"round {number}: {len(here)} documents, {len(state)} acknowledged; they differ")
        if len(collection) != len(here):
            found.faults.append(f"round {number}: the index has {len(collection)} of {len(here)} documents")
        for id_ in list(here)[:: max(1, len(here) // 50)]:
            best = collection.search_all([Query(vector_of(here[id_]))], top_k=1)[0][0]
            if (best.document.id, best.document.text) != (id_, here[id_]) or best.score < 0.9999:
                found.faults.append(f"round {number}: a search for the vector of {id_} does not find it")
    finally:
        collection.close()
    with open_store_file(folder / "documents.sqlite3") as file:
        found.faults += [f"round {number}: {fault}" for fault in verify(file)]
    return here
