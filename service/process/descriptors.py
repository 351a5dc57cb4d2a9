"""Limits connections to what the process's file descriptors allow, and counts the refused ones. Knows no HTTP.

RESERVE descriptors are kept for the document store, the log and the workers.
"""

import logging
import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from service.errors import StartError

RESERVE = 32  # descriptors for the store, its snapshots and the log
MOST = 2**20  # descriptors to ask for if there is no hard limit: Linux's default maximum (fs.nr_open)
AWAITED = 16  # excess connections that may send their request first: clients may miss an answer sent before it
LOG_INTERVAL_S = 60.0

logger = logging.getLogger(__name__)


def raise_limit() -> None:
    """Raise the soft limit on open files to the hard one: the usual 1024 exists only for select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as exc:  # a sandbox may forbid it
        logger.warning("cannot raise the limit on open files", extra={"limit": soft, "reason": str(exc)})


@dataclass
class ConnectionLimit:
    """The maximum number of connections open at once.  count: called once for each refused connection."""

    most: int
    count: Callable[[], None]
    _logged_at_s: float = -math.inf
    _unlogged: int = 0

    def refuse(self) -> str:
        """Count a refused connection, log at most once a minute, and return the error message."""
        self.count()
        self._unlogged += 1
        now_s = time.monotonic()
        if now_s - self._logged_at_s >= LOG_INTERVAL_S:
            logger.warning("connections refused", extra={"refused": self._unlogged, "limit": self.most})
            self._logged_at_s = now_s
            self._unlogged = 0
        return f"the service has {self.most} open connections, its maximum (ulimit -n); try again later"


def connection_limit(count: Callable[[], None]) -> ConnectionLimit:
    """Return the limit that the free descriptors allow. Call it once everything the start opens is open.

    uvloop accepts one connection per loop iteration, so each is counted before the next.
    Raises: StartError: too few descriptors are left for one connection.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        limit = MOST
    files = len(list(Path("/proc/self/fd").iterdir()))
    most = limit - files - RESERVE - AWAITED
    if most < 1:
        wanted = files + RESERVE + AWAITED + 1
        raise StartError(f"the process may open {limit} files; the service needs {wanted} (ulimit -n)")
    return ConnectionLimit(most, count)
