"""Reads the project's own files for the tests of its skeleton. Knows paths and formats; judges nothing."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
MADE = {"runs", "data", "build", "dist"}


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def declared(*parts: str) -> list[Requirement]:
    """The dependencies that pyproject.toml declares, with those of some extras and dependency groups."""
    project = pyproject()
    named = project["project"]["optional-dependencies"] | project["dependency-groups"]
    lines = [*project["project"]["dependencies"], *(line for part in parts for line in named[part])]
    return [Requirement(line) for line in lines if isinstance(line, str)]  # a group may include another, a table


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
    """Every file git tracks that is in the working tree; where git cannot say (a tarball), every source file."""
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return source_files()
    paths = [ROOT / name.decode() for name in listing.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


def source_files() -> list[Path]:
    """Every file of the tree but dot-folders and what the commands of this project make."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name not in MADE]
    inside = [path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return [path for path in [*ROOT.iterdir(), *inside] if path.is_file()]
