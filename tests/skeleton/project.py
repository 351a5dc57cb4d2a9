"""Reads the project's own files for the tests of its skeleton. Knows paths and formats; judges nothing."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def lock(name: str) -> list[Requirement]:
    """The pinned requirements of requirements/<name>, without hashes and comments."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line.partition("#")[0].partition("--hash")[0].strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line]


def locked_versions(name: str) -> dict[str, set[str]]:
    """Package -> the versions requirements/<name> pins it to (more than one: by environment marker)."""
    versions: dict[str, set[str]] = {}
    for requirement in lock(name):
        pinned = re.fullmatch(r"==(\S+)", str(requirement.specifier))
        assert pinned, f"{requirement} in {name} is not pinned"
        versions.setdefault(canonicalize_name(requirement.name), set()).add(pinned[1])
    return versions


def tracked_files() -> list[Path]:
    """Every file git tracks that is in the working tree."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name.decode() for name in listing.split(b"\0") if name]
    return [path for path in paths if path.is_file()]
