"""docker/systemd: that systemd understands the unit, and that its limits fit the service's."""

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from service.settings import Settings
from tests.skeleton.project import ROOT

UNIT = ROOT / "docker" / "systemd" / "crosslet.service"


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT, encoding="utf-8")
    return parser


def test_its_settings_are_known_and_fit_its_limits() -> None:
    service = unit()["Service"]
    given = dict(setting.split("=", 1) for setting in service["Environment"].split())
    assert {name.removeprefix("CROSSLET_").lower() for name in given} <= Settings.model_fields.keys()
    assert int(given["CROSSLET_MEMORY_BUDGET"]) < 0.91 * int(service["MemoryMax"])
    assert given["CROSSLET_DATA"] == f"/var/lib/{service['StateDirectory']}"
    longest_s = Settings().drain_delay_s + Settings().shutdown_timeout_s
    assert int(service["TimeoutStopSec"]) > longest_s


def test_systemd_understands_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = UNIT.read_text(encoding="utf-8").replace("/opt/crosslet/bin/crosslet", "/bin/true")
    (tmp_path / UNIT.name).write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", tmp_path / UNIT.name]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")
