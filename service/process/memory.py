"""Measures the process's memory and returns unused memory to the system (Linux, glibc)."""

import ctypes
import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from service.process.cpus import CGROUP_ROOT, OWN_CGROUPS, cgroup_folders

STATM = Path("/proc/self/statm")
MEMORY_INFO = Path("/proc/meminfo")
STATUS = Path("/proc/self/status")
MAPS = Path("/proc/self/maps")
M_ARENA_MAX = -8
MADV_DONTNEED = 4


def resident_bytes() -> int:
    """Resident memory of this process, 0 where /proc is missing."""
    try:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def memory_limit(root: Path = CGROUP_ROOT, own_cgroups: Path = OWN_CGROUPS, info: Path = MEMORY_INFO) -> int | None:
    """Return the bytes that the machine, or this process's cgroup, has at most; None if unknown."""
    limits = []
    for folder in cgroup_folders("memory", root, own_cgroups):
        for name in ("memory.max", "memory.limit_in_bytes"):  # versions 2 and 1
            with suppress(OSError, ValueError):  # none, or "max"
                limits.append(int((folder / name).read_text()))
    with suppress(OSError, StopIteration):
        total = next(line for line in info.read_text().splitlines() if line.startswith("MemTotal:"))
        limits.append(int(total.split()[1]) * 1024)
    return min(limits, default=None)


def growth_during(call: Callable[[], object]) -> int:
    """Return by how many bytes the process grew, at its peak, while `call` ran; 0 where /proc is missing.

    The kernel's peak covers the process's whole life, so a thread samples memory during the call. It runs whenever the
    call releases the GIL, as ONNX Runtime does.
    """
    largest = before = resident_bytes()
    peak_before, is_over = _peak_bytes(), threading.Event()

    def watch() -> None:
        nonlocal largest
        while not is_over.is_set():
            largest = max(largest, resident_bytes())

    watcher = threading.Thread(target=watch, name="memory-watcher")
    watcher.start()
    try:
        call()
    finally:
        is_over.set()
        watcher.join()
    peak = _peak_bytes()
    return max(largest, resident_bytes(), peak if peak > peak_before else 0) - before


def limit_arenas(count: int) -> None:
    """Make all threads share `count` glibc heaps: each heap keeps the peak memory of the threads that used it."""
    _call_glibc("mallopt", M_ARENA_MAX, count)


def return_free_memory() -> None:
    """Return free pages of the C heap to the system; otherwise glibc keeps many of them."""
    _call_glibc("malloc_trim", 0)


def give_back_unused() -> None:
    """Collect garbage, return its pages to the system, and exempt the remaining objects from later collections."""
    gc.collect()
    gc.freeze()
    return_free_memory()


def settle() -> None:
    """After the start: return memory that only the start needed, and turn garbage collection back on."""
    give_back_unused()
    gc.enable()
    unmap_code()


def unmap_code() -> None:
    """Drop the resident pages of the libraries' code: most of it runs only at the start.

    Code that runs again is mapped again, from the page cache if it is still there. Code pages are read-only, so
    nothing is lost.
    """
    try:
        lines = MAPS.read_text(errors="surrogateescape").splitlines()  # paths may hold any bytes
    except OSError:
        return
    for line in lines:
        span, rights, _, _, _, *path = line.split(maxsplit=5)
        if rights == "r-xp" and path and ".so" in path[0]:
            start, end = (int(address, 16) for address in span.split("-"))
            _call_glibc("madvise", ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def _call_glibc(name: str, *arguments: object) -> None:
    """Call a function of the C library; do nothing where the library lacks it."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)


def _peak_bytes() -> int:
    try:
        status = STATUS.read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)
