"""How many connections the process's file descriptors allow, and what becomes of one too many. Knows no HTTP.

The document store, the log and the workers open files, too: connections leave RESERVE descriptors to them.
"""

import logging
import resource
import time
from collections.abc import Callable
from pathlib import Path

from service.errors import StartError

RESERVE = 32  # descriptors that the store, its snapshots and the log may want
MOST = 2**20  # descriptors to ask for where there is no hard limit: what Linux grants by default
AWAITED = 16  # refused connections whose requests are awaited: an answer before the request may be lost on its way
LOG_INTERVAL_S = 60.0

logger = logging.getLogger(__name__)


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one; a shell's 1024 is for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as exc:  # a sandbox may forbid it
        logger.warning("the limit of open files stays as it is", extra={"limit": soft, "reason": str(exc)})


class ConnectionLimit:
    """A ceiling on open connections, and the count of those refused at it."""

    def __init__(self, *, most: int, count: Callable[[], None]) -> None:
        """most: connections open at once.  count: called for each refused one."""
        self.most = most
        self._count = count
        self._logged_at_s = float("-inf")
        self._unlogged = 0

    def refuse(self) -> str:
        """Count one connection too many, log at most once a minute, and say why in a sentence."""
        self._count()
        self._unlogged += 1
        now_s = time.monotonic()
        if now_s - self._logged_at_s >= LOG_INTERVAL_S:
            logger.warning("connections refused", extra={"refused": self._unlogged, "limit": self.most})
            self._logged_at_s = now_s
            self._unlogged = 0
        return f"the service has as many connections as it may open, {self.most} (ulimit -n); come again"


def connection_limit(count: Callable[[], None]) -> ConnectionLimit:
    """What the descriptors allow that are free now, when all that a start opens is open.

    uvloop takes one connection a turn of its loop, so each is counted before the next.
    Raises: StartError: there are too few for one connection.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        limit = MOST
    files = len(list(Path("/proc/self/fd").iterdir()))
    most = limit - files - RESERVE - AWAITED
    if most < 1:
        wanted = files + RESERVE + AWAITED + 1
        raise StartError(f"the process may open {limit} files; the service needs {wanted} (ulimit -n)")
    return ConnectionLimit(most=most, count=count)
