"""Opens standard streams that are closed, and has them speak UTF-8. Knows descriptors; knows no command."""

import io
import os
import sys


def open_closed_streams() -> None:
    """Where a standard stream is closed (`>&-`): nothing comes in, an error goes nowhere, an output is refused.

    Else the next file or socket would get its number, and what a library says on standard error.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):  # 1: read-only, so that writing fails
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def speak_utf8() -> None:
    """Texts and JSON are UTF-8 whatever the locale, or PYTHONIOENCODING, says: another encoding lacks most letters.

    What is read and is not UTF-8 becomes lone surrogates, as in arguments: the line can be named.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")
