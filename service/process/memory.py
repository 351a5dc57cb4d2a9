"""What memory the process takes, and how its C heap gives it back. Knows Linux and glibc; knows no limit."""

import ctypes
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

STATM = Path("/proc/self/statm")
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


def growth_during(call: Callable[[], object]) -> int:
    """By how many bytes the process grew while a call ran, at its peak; 0 where /proc is missing.

    The kernel's own peak is that of the whole life, so a thread reads along: it sees what a call takes while it is in
    code that lets go of the GIL, as ONNX Runtime does.
    """
    before, peak_before = resident_bytes(), _peak_bytes()
    seen = [before]
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            seen.append(max(resident_bytes(), seen.pop()))

    watcher = threading.Thread(target=watch, name="memory-watcher")
    watcher.start()
    try:
        call()
    finally:
        is_over.set()
        watcher.join()
    peak = _peak_bytes()
    return max(seen[0], resident_bytes(), peak if peak > peak_before else 0) - before


def limit_arenas(count: int) -> None:
    """Have all threads share a few of glibc's heaps, for each keeps the peak of the threads that used it."""
    mallopt = _glibc("mallopt")
    if mallopt is not None:
        mallopt(M_ARENA_MAX, count)


def return_free_memory() -> None:
    """Give free pages of the C heap back to the system; glibc keeps many of them otherwise."""
    trim = _glibc("malloc_trim")
    if trim is not None:
        trim(0)


def give_back_unused() -> None:
    """Collect what nobody refers to, and give its pages back to the system. What is left is not looked at again."""
    gc.collect()
    gc.freeze()
    return_free_memory()


def settle() -> None:
    """After the start: give back what only the start needed, and collect as usual from now on."""
    give_back_unused()
    gc.enable()
    unmap_code()


def unmap_code() -> None:
    """Let go of the pages of the libraries' code, most of which only a start runs; what runs again is mapped again.

    Nothing is read from the disk for it as long as the system has the files in its cache. Code alone: it is never
    written to, so there is nothing to lose.
    """
    madvise = _glibc("madvise")
    try:
        lines = MAPS.read_text(errors="surrogateescape").splitlines()  # paths of any bytes
    except OSError:
        return
    for line in lines:
        span, rights, _, _, _, *path = line.split(maxsplit=5)
        if madvise is not None and rights == "r-xp" and path and ".so" in path[0]:
            start, end = (int(address, 16) for address in span.split("-"))
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def _glibc(name: str) -> Callable[..., int] | None:
    """A function of the C library, or None where it is another one."""
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return function


def _peak_bytes() -> int:
    try:
        status = STATUS.read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)
