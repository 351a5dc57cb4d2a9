"""Rehearses the start in a child process where address space is limited (ulimit -v).

Native libraries abort the process when an allocation fails, too late for an error message of ours.
"""

import os
import resource
from collections.abc import Callable
from pathlib import Path

from service.errors import CrossletError, StartError, StorageFull

STATM = Path("/proc/self/statm")
# Not bounded by any setting: glibc maps heaps of 64 MiB, a thread's stack takes 8 MiB, tokenising up to 40 MB.
WORKING_BYTES = 192 * 2**20


def address_space() -> int | None:
    """Return the number of bytes this process may map, or None if there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def is_limited() -> bool:
    """Whether address space or data is limited (ulimit -v, -d): each thread maps up to 72 MiB more."""
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in limits)


def check_start(load: Callable[[], object], *, room_bytes: int) -> None:
    """If address space is limited, try `load` in a child that may map `room_bytes` less. Call before starting threads.

    Raises: StartError: the child failed; with the child's own message, if it had one.
    """
    limit_bytes = address_space()
    if limit_bytes is None:
        return
    failure = _try_in_child(load, limit_bytes - room_bytes)
    if failure is not None:
        raise StartError(
            failure
            or f"the process may map {limit_bytes} bytes of memory (ulimit -v), too few to load the model and its "
            f"libraries and keep {room_bytes} for requests: raise or unset that limit"
        )


def check_documents(growth_bytes: int, *, room_bytes: int) -> None:
    """Check that the index may grow by `growth_bytes` and still leave `room_bytes` for requests.

    Raises: StorageFull: it may not.
    """
    limit_bytes = address_space()
    if limit_bytes is None:
        return
    mapped_bytes = int(STATM.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    wanted_bytes = mapped_bytes + growth_bytes + room_bytes
    if wanted_bytes > limit_bytes:
        raise StorageFull(
            f"with these documents and {room_bytes} bytes for requests, the service would map {wanted_bytes} bytes "
            f"of memory; the limit is {limit_bytes} (ulimit -v); nothing was changed"
        )


def _try_in_child(load: Callable[[], object], limit_bytes: int) -> str | None:
    """Load in a child under a limit. Return None on success, else the error's message, which may be empty."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _load_and_exit(load, limit_bytes, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        message = pipe.read()
    _, status = os.waitpid(child, 0)
    return None if os.waitstatus_to_exitcode(status) == 0 else message


def _load_and_exit(load: Callable[[], object], limit_bytes: int, writer: int) -> None:
    """Runs in the child: exit with 0 if `load` succeeds. The libraries' own output is discarded."""
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
