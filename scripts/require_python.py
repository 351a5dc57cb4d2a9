"""Stops with one sentence when the interpreter is too old. Runs on any Python 3, so nothing modern in here."""

import sys

OLDEST = (3, 11)

if sys.version_info < OLDEST:
    sys.exit(
        "crosslet needs Python %d.%d or newer; %s is %d.%d: name another with `make PYTHON=python3.11 ...`"  # noqa: UP031
        % (OLDEST + (sys.executable,) + tuple(sys.version_info[:2]))  # noqa: RUF005
    )
