"""Tries a start in a process of its own where address space is limited (ulimit -v). Knows limits; loads no library.

Native libraries end the process when an allocation fails, each in its own way: by then no sentence can be said.
"""

import os
import resource
from collections.abc import Callable
from pathlib import Path

from service.errors import CrossletError, StartError, StorageFull

STATM = Path("/proc/self/statm")
# For what no setting bounds: glibc maps its heaps 64 MiB at a time, a thread's stack takes 8 MiB, tokenising up to
# 40 MB.
WORKING_BYTES = 192 * 2**20


def address_space() -> int | None:
    """How many bytes this process may map, None where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def check_start(load: Callable[[], object], *, room_bytes: int) -> None:
    """Where address space is limited, try `load` in a child that may map `room_bytes` less. Call it before any thread.

    Raises: StartError: the child could not; its own sentence, if it had one.
    """
    limit_bytes = address_space()
    if limit_bytes is None:
        return
    said = _tried(load, limit_bytes - room_bytes)
    if said is not None:
        raise StartError(
            said
            or f"the process may map {limit_bytes} bytes of memory (ulimit -v), too few to load the model and the "
            f"libraries and to keep {room_bytes} for the work: raise that limit, or unset it"
        )


def check_documents(growth_bytes: int, *, room_bytes: int) -> None:
    """Let vectors into the index, so that the work has its room beside it.

    Raises: StorageFull: they would not fit.
    """
    limit_bytes = address_space()
    if limit_bytes is None:
        return
    wanted_bytes = _mapped_bytes() + growth_bytes + room_bytes
    if wanted_bytes > limit_bytes:
        raise StorageFull(
            f"with these documents, and {room_bytes} bytes for requests, the service would map {wanted_bytes} bytes "
            f"of memory; the limit is {limit_bytes} (ulimit -v); nothing was changed"
        )


def _mapped_bytes() -> int:
    return int(STATM.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _tried(load: Callable[[], object], limit_bytes: int) -> str | None:
    """Load in a child under a limit. None: it could; else the sentence of its error, which may be empty."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _load_and_end(load, limit_bytes, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as sentence:
        said = sentence.read()
    _, status = os.waitpid(child, 0)
    return None if os.waitstatus_to_exitcode(status) == 0 else said


def _load_and_end(load: Callable[[], object], limit_bytes: int, writer: int) -> None:
    """In the child: its exit code is 0 if it could load. What libraries say of memory is not for the operator."""
    code = 1
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        resource.setrlimit(resource.RLIMIT_AS, (max(0, limit_bytes), resource.getrlimit(resource.RLIMIT_AS)[1]))
        load()
        code = 0
    except CrossletError as exc:
        os.write(writer, str(exc).encode())
    finally:
        os._exit(code)
