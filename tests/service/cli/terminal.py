"""Runs `crosslet` on a pseudo-terminal."""

import os
import pty
import subprocess
import sys
import termios
from dataclasses import dataclass

COMMAND = [sys.executable, "-c", "import sys; from service.cli.main import main; sys.exit(main())"]


@dataclass(frozen=True)
class Ended:
    """What a command wrote to the terminal and to standard error, and its exit status."""

    screen: str
    error: str
    status: int


def on_a_terminal(*arguments: str, columns: int = 80) -> Ended:
    """Run a command whose standard output is a terminal of so many columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environment = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}}
    with subprocess.Popen([*COMMAND, *arguments], stdout=theirs, stderr=subprocess.PIPE, env=environment) as process:
        os.close(theirs)
        written = b""
        while part := _read(ours):
            written += part
        assert process.stderr is not None
        error = process.stderr.read().decode()
    os.close(ours)
    return Ended(written.decode().replace("\r\n", "\n"), error, process.returncode)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side has been closed
        return b""
