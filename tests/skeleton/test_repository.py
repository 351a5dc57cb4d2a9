import os
import re
import subprocess
import sys

import pytest
from packaging.version import Version

from service.version import VERSION
from tests.skeleton.project import ROOT, tracked_files

MAX_FILE_BYTES = 32_000_000  # what the folder of the bundled model may have
MACHINE_PATH = re.compile(rb"(?<![\w./}-])/(?:home|root|Users|work|mnt|opt/wheels|opt/pypi)/[\w.]")


def test_no_tracked_file_is_larger_than_the_bundled_model_may_be() -> None:
    sizes = {path.relative_to(ROOT): path.stat().st_size for path in tracked_files()}
    assert len(sizes) > 10
    assert {path: size for path, size in sizes.items() if size > MAX_FILE_BYTES} == {}


def test_no_tracked_text_names_a_path_of_somebodys_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in tracked_files()
        if b"\0" not in (content := path.read_bytes())
        for match in MACHINE_PATH.finditer(content)
    ]
    assert found == []


def test_tracked_files_are_found_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    names = {str(path.relative_to(ROOT)) for path in tracked_files()}
    assert {"Makefile", "service/api/app.py"} <= names
    assert not [name for name in names if name.startswith((".venv", ".git/", "runs/"))]


def test_the_machine_path_pattern_knows_what_it_looks_for() -> None:
    caught = [b"cd /home" + b"/ann/x", b'"/work' + b'/main"', b"=/root" + b"/.cache"]
    assert all(MACHINE_PATH.search(text) for text in caught)
    assert not MACHINE_PATH.search(b"https://example.org/home/page and $HOME/work/x and ./work/x")


def test_the_version_is_the_top_release_or_a_later_dev_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    top, *_ = headings = re.findall(r"(?m)^## \[(.+?)\]", changelog)
    releases = [heading for heading in headings if heading != "Unreleased"]
    if top == "Unreleased":
        assert all(Version(VERSION) > Version(release) for release in releases)
        assert Version(VERSION).is_devrelease
    else:
        assert top == VERSION


def test_settings_of_the_shell_do_not_reach_the_tests() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/service/test_settings.py"]
    environment = os.environ | {"CROSSLET_PORT": "many"}
    end = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stdout
