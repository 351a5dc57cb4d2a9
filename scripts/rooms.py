"""Lists what makes the house large: totals of each package, short modules with one importer, long names of tests.

python scripts/rooms.py      # from the root of the repository
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("service", "training", "export", "benchmarks", "tests")
SHORT_LINES = 60
LONG_NAME = 60  # characters


def modules(package: str) -> list[Path]:
    """Return the modules of a package, without `__init__.py`."""
    return [path for path in sorted((ROOT / package).rglob("*.py")) if path.name != "__init__.py"]


def lines_of(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def imported_names(path: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports, at any depth of its code."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def lonely_modules() -> list[str]:
    """Return the short modules that only one other module imports; tests do not count as importers."""
    sources = [path for package in PACKAGES if package != "tests" for path in modules(package)]
    importers = Counter(name for path in sources for name in set(imported_names(path)))
    short = [path.relative_to(ROOT) for path in sources if lines_of(path) < SHORT_LINES and path.name != "__main__.py"]
    return [
        f"{path}: {lines_of(ROOT / path)}" for path in short if importers[".".join(path.with_suffix("").parts)] == 1
    ]


def long_test_names() -> list[str]:
    """Return the tests whose names are too long."""
    return [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in modules("tests")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and len(node.name) > LONG_NAME
    ]


def totals() -> list[str]:
    """Return the lines and modules of each package and of the packages in it."""
    folders = [
        ROOT / package / folder
        for package in PACKAGES
        for folder in ("", *sorted(path.name for path in (ROOT / package).iterdir() if path.is_dir()))
    ]
    counts = {folder: list(folder.rglob("*.py")) for folder in folders}
    return [
        f"{sum(map(lines_of, files)):6} lines {len(files):4} modules  {folder.relative_to(ROOT)}"
        for folder, files in counts.items()
        if files
    ]


def main() -> int:
    """Print the three lists."""
    lonely, long_names = lonely_modules(), long_test_names()
    print("Packages", *totals(), sep="\n")  # noqa: T201
    print(f"\n{len(lonely)} modules of under {SHORT_LINES} lines with one importer", *lonely, sep="\n")  # noqa: T201
    print(f"\n{len(long_names)} names of tests over {LONG_NAME} characters", *long_names, sep="\n")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
