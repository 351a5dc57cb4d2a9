import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from service.settings import Settings
from tests.service.cli.conftest import Crosslet
from tests.service.cli.terminal import COMMAND, on_a_terminal


def test_every_setting_is_listed_with_value_default_and_meaning(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSLET_PORT", "9090")
    rows = {row["name"]: row for row in map(json.loads, crosslet("settings").out.splitlines())}
    assert list(rows) == [f"CROSSLET_{name.upper()}" for name in Settings.model_fields]
    assert rows["CROSSLET_PORT"] == {
        "name": "CROSSLET_PORT",
        "value": 9090,
        "default": 8080,
        "meaning": Settings.model_fields["port"].description,
    }
    screen = on_a_terminal("settings").screen
    assert "CROSSLET_PORT = 9090  (default: 8080)\n    Port to listen on; 0 picks a free one.\n" in screen
    assert "CROSSLET_DATA = data\n" in screen
    assert max(map(len, screen.splitlines())) <= 120
    assert re.findall(r"(?m)^CROSSLET_\w+", screen) == list(rows)


def test_secrets_are_hidden_and_unknown_variables_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEYS", "READ_API_KEYS", "INDEX_TOKEN"):
        monkeypatch.setenv(f"CROSSLET_{name}", "sesame")
    monkeypatch.setenv("CROSSLET_PROT", "1")
    ended = on_a_terminal("settings")
    piped = subprocess.run([*COMMAND, "settings"], capture_output=True, text=True, check=True).stdout
    assert "sesame" not in ended.screen + ended.error + piped
    assert "CROSSLET_API_KEYS = (hidden)  (default: none)" in ended.screen
    assert ended.error == "crosslet: CROSSLET_PROT is set, but is no setting; did you mean CROSSLET_PORT?\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--port", "99999"], "--port: Input should be less than or equal to 65535"),
        (["--port", "eighty"], "--port: Input should be a valid integer"),
        (["--host", ""], "argument --host: is empty"),
    ],
)
def test_a_bad_option_is_named_as_it_was_given(crosslet: Crosslet, arguments: list[str], complaint: str) -> None:
    assert complaint in crosslet("serve", *arguments, status=2).err


def test_port_and_host_win_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, tiny_model: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("CROSSLET_HOST", "192.0.2.1")
    monkeypatch.setenv("CROSSLET_PORT", "1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        options = ["--host", "127.0.0.1", "--port", port, "--model", str(tiny_model), "--data", str(tmp_path)]
        done = subprocess.run([*COMMAND, "serve", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"port {port} is in use" in done.stderr.splitlines()[-1]


def test_a_command_takes_only_the_options_that_it_uses(crosslet: Crosslet) -> None:
    for command, used in {
        "serve": {"model", "data", "host", "port"},
        "search": {"model", "data"},
        "embed": {"model"},
        "index build": {"model", "data"},
        "index stats": {"data"},
        "settings": set(),
    }.items():
        help_ = crosslet(*command.split(), "--help").out
        assert set(re.findall(r"(?m)^  --(model|data|host|port) ", help_)) == used
        assert len(help_.splitlines()) <= (52 if command == "search" else 36)
        assert "CROSSLET_MAX_TEXTS" not in help_
        assert "`crosslet settings` lists" in help_


def test_a_folder_that_is_not_utf8_is_written_with_escapes() -> None:
    environment = {**os.environb, b"CROSSLET_DATA": b"caf\xe9"}
    done = subprocess.run([*COMMAND, "settings"], env=environment, capture_output=True, text=True, check=True)
    rows = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows["CROSSLET_DATA"]["value"] == "caf\udce9"
