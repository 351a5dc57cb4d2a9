"""Stops with one sentence when the interpreter is too old or cannot make an environment.

Runs on any Python 3, so nothing modern in here.
"""

import sys

OLDEST = (3, 11)

if sys.version_info < OLDEST:
    sys.exit(
        "crosslet needs Python %d.%d or newer; %s is %d.%d: name another with `make PYTHON=python3.11 ...`"  # noqa: UP031
        % (OLDEST + (sys.executable,) + tuple(sys.version_info[:2]))  # noqa: RUF005
    )

try:
    import ensurepip  # noqa: F401 - only to know that it is there
except ImportError:
    sys.exit(
        "%s cannot make an environment with pip: on Debian and Ubuntu, `apt install python3-venv`"  # noqa: UP031
        % (sys.executable,)
    )
