"""Stops with one sentence when the interpreter is too old, too new or cannot make an environment.

Usage: require_python.py [NEWEST], as 3.13; without it none is too new.
Runs on any Python 3, so nothing modern in here.
"""

import sys

OLDEST = (3, 11)

if sys.version_info < OLDEST:
    sys.exit(
        "crosslet needs Python %d.%d or newer; %s is %d.%d: name another with `make PYTHON=python3.11 ...`"  # noqa: UP031
        % (OLDEST + (sys.executable,) + tuple(sys.version_info[:2]))  # noqa: RUF005
    )

NEWEST = tuple(int(number) for number in sys.argv[1].split(".")) if sys.argv[1:] else sys.version_info[:2]

if sys.version_info[:2] > NEWEST:
    sys.exit(
        "the development environment needs Python %d.%d at most, for its locks; %s is %d.%d: "  # noqa: UP031
        "name another with `make PYTHON=python%d.%d ...`"
        % (NEWEST + (sys.executable,) + tuple(sys.version_info[:2]) + NEWEST)  # noqa: RUF005
    )

try:
    import ensurepip  # noqa: F401 - only to know that it is there
except ImportError:
    sys.exit(
        "%s cannot make an environment with pip: on Debian and Ubuntu, `apt install python3-venv`"  # noqa: UP031
        % (sys.executable,)
    )
