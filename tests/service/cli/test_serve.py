import os
import pty
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.ports import reserved_port
from tests.service.cli.terminal import COMMAND


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


def last_line_on_a_terminal(model: Path, data: Path, port: int, settings: Mapping[str, str]) -> str:
    """Start a service whose output is a terminal; end it when it has said what it serves."""
    ours, theirs = pty.openpty()
    environment = os.environ | {f"CROSSLET_{name}": value for name, value in settings.items()}
    options = ["--model", str(model), "--data", str(data), "--port", str(port)]
    with subprocess.Popen([*COMMAND, "serve", *options], stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        written = b""
        while b"Ctrl-C ends it\r\n" not in written:
            part = os.read(ours, 10_000)
            assert part, written.decode()
            written += part
        process.send_signal(signal.SIGTERM)
    os.close(ours)
    return written.decode().splitlines()[-1]


@pytest.mark.parametrize(
    ("settings", "url", "page"),
    [
        ({}, "http://127.0.0.1:{port}", "page http://127.0.0.1:{port}/"),
        ({"HOST": "0.0.0.0"}, "http://127.0.0.1:{port}", "page http://127.0.0.1:{port}/"),
        ({"ROOT_PATH": "/lab"}, "http://127.0.0.1:{port}", "page http://127.0.0.1:{port}/lab/"),
        ({"PAGE": "false"}, "http://127.0.0.1:{port}", "routes http://127.0.0.1:{port}/docs"),
        ({"HOST": "::"}, "http://[::1]:{port}", "page http://[::1]:{port}/"),
    ],
)
def test_a_terminal_ends_with_what_is_served_where(
    tiny_model: Path, tmp_path: Path, settings: dict[str, str], url: str, page: str
) -> None:
    if settings.get("HOST") == "::" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with reserved_port() as port:
        line = last_line_on_a_terminal(tiny_model, tmp_path, port, settings)
    expected = f"crosslet serves tiny at {url}: {page}, documents in {tmp_path}/documents.sqlite3; Ctrl-C ends it"
    assert line == expected.format(port=port)


def test_a_folder_whose_name_is_no_utf8_is_served(tiny_model: Path, tmp_path: Path) -> None:
    data = tmp_path / os.fsdecode(b"no-\xff")
    with reserved_port() as port:
        line = last_line_on_a_terminal(tiny_model, data, port, {})
    assert f"documents in {tmp_path}/no-?/documents.sqlite3; Ctrl-C ends it" in line
