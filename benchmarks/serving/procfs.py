"""The CPU time and memory of a process tree, and how busy its cores are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil

NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")  # guests' time is counted in user and nice, too


def tree_of(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(pid: int) -> float:
    """User and system time of the tree since its start, including ended children."""
    return _sum(pid, lambda process: sum(process.cpu_times()[:4]))  # user, system, and both of children


def hold(pid: int, cores: Iterable[int]) -> None:
    """Pin every thread of the tree to these cores, since ONNX Runtime's own pinning ignores the process's affinity."""
    for process in tree_of(pid):
        with suppress(psutil.NoSuchProcess):
            for thread in process.threads():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, cores)


def resident_bytes(pid: int) -> int:
    """Resident memory of the tree; shared pages count once a process."""
    return int(_sum(pid, lambda process: process.memory_info().rss))


def peak_bytes(pid: int) -> int:
    """The sum of the processes' peaks (VmHWM): an upper bound of the tree's peak."""
    return int(_sum(pid, _peak))


def busy_seconds(cores: Iterable[int]) -> float:
    """Busy time of these cores since boot, including stolen time."""
    times = psutil.cpu_times(percpu=True)
    return sum(value for core in cores for name, value in times[core]._asdict().items() if name not in NOT_BUSY)


def _sum(pid: int, figure: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in tree_of(pid):
        with suppress(psutil.NoSuchProcess, OSError):  # it has ended
            total += figure(process)
    return total


def _peak(process: psutil.Process) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0.0)
