"""Reads the CPU time and memory of a process tree from Linux's /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PARENT, USER_TICKS, SYSTEM_TICKS, DEAD_USER_TICKS, DEAD_SYSTEM_TICKS = 1, 11, 12, 13, 14  # after the process name
IDLE, GUESTS = (3, 4), 8  # columns of a CPU's line: idle and iowait; guest columns are counted twice


def tree_of(pid: int, proc: Path = PROC) -> list[int]:
    """The process and its living descendants."""
    children: dict[int, list[int]] = {}
    for path in proc.iterdir():
        if path.name.isdigit() and (fields := _stat(path)):
            children.setdefault(int(fields[PARENT]), []).append(int(path.name))
    return list(_walk(pid, children)) if (proc / str(pid)).is_dir() else []


def cpu_seconds(pid: int, proc: Path = PROC) -> float:
    """User and system time of the tree since its start, including ended children."""
    wanted = (USER_TICKS, SYSTEM_TICKS, DEAD_USER_TICKS, DEAD_SYSTEM_TICKS)
    stats = [_stat(proc / str(one)) for one in tree_of(pid, proc)]
    return sum(int(fields[column]) for fields in stats if fields for column in wanted) / TICKS_PER_S


def hold(pid: int, cores: Iterable[int], proc: Path = PROC) -> None:
    """Pin every thread of the tree to these cores, since ONNX Runtime's own pinning ignores the process's affinity."""
    for one in tree_of(pid, proc):
        with suppress(FileNotFoundError):
            for task in (proc / str(one) / "task").iterdir():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(task.name), cores)


def resident_bytes(pid: int, proc: Path = PROC) -> int:
    """Resident memory of the tree (VmRSS); shared pages count once a process."""
    return _sum_status(pid, "VmRSS", proc)


def peak_bytes(pid: int, proc: Path = PROC) -> int:
    """The sum of the processes' peaks (VmHWM): an upper bound of the tree's peak."""
    return _sum_status(pid, "VmHWM", proc)


def busy_seconds(cores: Iterable[int], proc: Path = PROC) -> float:
    """Busy time of these cores since boot, including stolen time."""
    wanted = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in (proc / "stat").read_text(encoding="utf-8").splitlines())
    ticks = (
        int(count)
        for name, *columns in lines
        if name in wanted
        for column, count in enumerate(columns[:GUESTS])
        if column not in IDLE
    )
    return sum(ticks) / TICKS_PER_S


def _walk(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    yield pid
    for child in children.get(pid, ()):
        yield from _walk(child, children)


def _stat(folder: Path) -> list[str]:
    """The fields after the process name, which may contain spaces and brackets; empty if the process has ended."""
    try:
        return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _sum_status(pid: int, name: str, proc: Path) -> int:
    return sum(_status_bytes(proc / str(one), name) for one in tree_of(pid, proc))


def _status_bytes(folder: Path, name: str) -> int:
    try:
        lines = (folder / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    kilobytes = next((line.split()[1] for line in lines if line.startswith(f"{name}:")), "0")
    return int(kilobytes) * 1024
