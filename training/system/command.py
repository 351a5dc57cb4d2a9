"""How the work of a command ends: the exit status, and one sentence on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable

from safetensors import SafetensorError

from training.errors import PeerError, TrainingError


def exit_status(work: Callable[[], int | None], *, stopped: str = "stopped", kept: str = "") -> int:
    """Return what the work returns, 0 for None; 2 with one sentence after an error, 130 on Ctrl-C.

    Args: stopped: what is said on Ctrl-C.  kept: what is said after an error of the operating system.
    """
    try:
        return work() or 0
    except PeerError:
        return 2  # the process that failed says why
    except TrainingError as exc:
        print(f"error: {exc}", file=sys.stderr)
    except (OSError, SafetensorError) as exc:  # the last: a full disk
        print(f"error: {exc}{kept}", file=sys.stderr)
    except KeyboardInterrupt:
        print(stopped, file=sys.stderr)
        return 130
    return 2
