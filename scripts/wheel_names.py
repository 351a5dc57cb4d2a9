"""Puts `crosslet` and the service into the wheel, the service as `crosslet.service`: a build hook of hatchling.

A wheel that installed a package called `service` would hide other programs' own, or be hidden by it. In a checkout the
names stay short. Only import statements are rewritten; one that could not be is an error.
"""

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PUBLIC, PRIVATE = "crosslet", "service"
COMMANDS = "crosslet.commands"  # those of training and export, which stay in the checkout


class WheelNames(BuildHookInterface):
    """Adds the renamed packages to a wheel; an editable install is the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the packages to a folder that hatchling takes them from."""
        self.folder = Path(tempfile.mkdtemp())
        if version == "editable":
            return
        root, packages = Path(self.root), self.folder / PUBLIC
        ignore = shutil.ignore_patterns("__pycache__", "models")
        shutil.copytree(root / PUBLIC, packages, ignore=ignore)
        shutil.copytree(root / PRIVATE, packages / PRIVATE, ignore=ignore)
        for path in packages.rglob("*.py"):
            path.write_text(renamed(path.read_text(encoding="utf-8"), path.name), encoding="utf-8")
        build_data["force_include"][str(packages)] = PUBLIC
        self.metadata.core.entry_points.pop(COMMANDS)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)


def renamed(source: str, name: str) -> str:
    """Return a module's source with `service` imported from `crosslet`. name: of the file, for errors.

    Raises: ValueError: an import binds the name `service`, which the code may use.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_private(node.module or ""):
            _insert(lines, node.lineno, node.col_offset + len("from "))
        elif isinstance(node, ast.Import) and any(_is_private(alias.name) for alias in node.names):
            if len(node.names) > 1 or (node.names[0].name == PRIVATE and not node.names[0].asname):
                raise ValueError(f"{name}:{node.lineno}: write `from {PRIVATE} import ..`: the wheel renames {PRIVATE}")
            _insert(lines, node.lineno, node.col_offset + len("import "))
    return "".join(lines)


def _is_private(module: str) -> bool:
    return module.partition(".")[0] == PRIVATE


def _insert(lines: list[str], number: int, offset: int) -> None:
    """Put the public name before the module's, in a line of ASCII up to there."""
    line = lines[number - 1]
    if not line[offset:].startswith(PRIVATE):
        raise ValueError(f"line {number} is no plain import: {line.strip()}")
    lines[number - 1] = f"{line[:offset]}{PUBLIC}.{line[offset:]}"
