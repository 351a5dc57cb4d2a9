"""Opens closed standard streams, sets them to UTF-8, and gives up one that cannot be written."""

import io
import os
import sys


def open_closed_streams() -> None:
    """Replace standard streams that are closed (`>&-`): stdin is empty, stderr is discarded, writing to stdout fails.

    Otherwise the next file or socket would get the stream's number, and receive what libraries print to it.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):  # 1: read-only, so that writing fails
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def speak_utf8() -> None:
    """Read and write UTF-8 whatever the locale or PYTHONIOENCODING says: other encodings lack most letters.

    Bytes that are not UTF-8 are read as lone surrogates, as in arguments, so that an error can name the line.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")


def give_up_standard_output() -> None:
    """Redirect standard output to /dev/null: Python's flush at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
