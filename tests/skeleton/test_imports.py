import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.skeleton.project import ROOT, declared

HEAVY = {"torch", "transformers", "optimum", "sentence_transformers", "onnx"}


# What a room may import beside itself and the errors. Rooms that may import everything are not listed.
TYPES = ("document", "filters", "names", "own_fields", "recalibration")
DOCUMENT_TYPES = {f"service.documents.{name}" for name in TYPES}
ARROWS = {
    "service.process": set(),
    "service.model": {"service.process"},
    "service.engine": {"service.model", "service.blending"},
    "service.api.schemas": {
        *("service.documents.names", "service.documents.filters", "service.documents.own_fields"),
        "service.documents.recalibration",
        *("service.invisible", "service.json_parsing", "service.spelling"),
    },
    "service.documents.keywords": DOCUMENT_TYPES | {"service.invisible"},
    "service.documents.store": DOCUMENT_TYPES | {"service.documents.keywords", "service.process.files"},
    "service.documents.vectors": DOCUMENT_TYPES | {"service.documents.store", "service.process.files"},
    "service.documents.milvus": DOCUMENT_TYPES
    | {
        *("service.documents.interface", "service.documents.search", "service.documents.store"),
        *("service.documents.arrangement", "service.documents.collections", "service.documents.keywords"),
    },
    "service.documents": {
        *("service.blending", "service.invisible", "service.process.files", "service.spelling"),
        *("service.keys", "service.model.confidence"),
    },
    "service.api": {
        *("service.documents", "service.engine", "service.json_parsing", "service.metrics", "service.model"),
        *("service.keys", "service.blending", "service.process", "service.runtime", "service.api.schemas"),
        *("service.version", "service.traces"),
    },
    "service.documents.readers": {
        *("service.documents.filters", "service.documents.own_fields", "service.json_parsing", "service.spelling"),
    },
    "service.offline": {
        *("service.document_index", "service.documents", "service.engine", "service.json_parsing", "service.model"),
        *("service.process", "service.runtime", "service.api.schemas", "service.settings"),
    },
    "training.system": set(),
    "training.config": set(),
    "training.corpora": {"training.config", "training.system"},
    "training.vocabulary": {"training.config", "training.corpora", "training.system"},
    "training.models": {"training.config", "training.system", "training.vocabulary"},
    "training.optimisation": {"training.config", "training.system"},
    "training.stages": {
        *("training.config", "training.corpora", "training.losses", "training.models", "training.optimisation"),
        "training.vocabulary",
    },
    "export.quantization": set(),
}


def imported_modules(path: Path) -> Iterator[str]:
    """Dotted names that a source file imports, at any depth of its code."""
    yield from names_imported(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def names_imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_module(name: str) -> bool:
    """False for the names within a module, and for packages."""
    return (ROOT / f"{name.replace('.', '/')}.py").is_file()


def module_imports(*packages: str) -> dict[str, set[str]]:
    """Module -> the modules of these packages that it imports outside of functions."""
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    return {
        name: (set(names_imported(outside_functions(ast.parse(path.read_text("utf-8"))))) & modules.keys()) - {name}
        for name, path in modules.items()
    }


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from outside_functions(child)


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The modules that reach each other, a list for each circle."""
    reached: dict[str, set[str]] = {}
    for start in imports:
        seen, waiting = set(), [start]
        while waiting:
            new = imports[waiting.pop()] - seen
            seen |= new
            waiting += new
        reached[start] = seen
    found = {
        frozenset(one for one in reached[name] if name in reached[one]) for name in imports if name in reached[name]
    }
    return sorted(sorted(circle) for circle in found)


def offences(package: str, banned: set[str]) -> list[str]:
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources, f"{package}/ has no sources"
    return [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sources
        for module in imported_modules(path)
        if module.split(".")[0] in banned
    ]


def test_service_imports_no_training_export_or_torch() -> None:
    assert offences("service", HEAVY | {"training", "export"}) == []


def test_training_imports_neither_the_service_nor_export() -> None:
    assert offences("training", {"service", "export"}) == []


def test_export_imports_no_route_command_or_page() -> None:
    rooms = ("service.api", "service.cli", "service.web")
    assert [line for line in offences("export", {"service"}) if line.split(": ")[1].startswith(rooms)] == []


def test_the_public_package_imports_the_service_alone() -> None:
    assert offences("crosslet", HEAVY | {"training", "export", "fastapi", "uvicorn", "starlette"}) == []
    assert offences("service", {"crosslet"}) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(module_imports("crosslet", "service", "training", "export")) == []


@pytest.mark.parametrize("room", ARROWS)
def test_a_room_imports_only_what_its_docstring_says(room: str) -> None:
    allowed = {room, *ARROWS[room], f"{room.split('.')[0]}.errors"}
    deeper = [other for other in ARROWS if other.startswith(f"{room}.")]  # they have arrows of their own
    offending = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sorted((ROOT / room.replace(".", "/")).rglob("*.py"))
        if not any(other.replace(".", "/") in path.as_posix() for other in deeper)
        for module in imported_modules(path)
        if is_module(module) and module.split(".")[0] == room.split(".")[0]
        if not any(module == name or module.startswith(f"{name}.") for name in allowed)
    ]
    assert offending == []


@pytest.mark.parametrize(
    ("package", "parts"),
    [
        ("crosslet", []),
        ("service", ["milvus", "milvus-lite", "mcp", "traces", "parquet", "ray"]),
        ("training", ["training", "models"]),
        ("export", ["training", "export"]),
    ],
)
def test_every_imported_package_is_a_declared_dependency(package: str, parts: list[str]) -> None:
    names = {canonicalize_name(requirement.name) for requirement in declared(*parts)}
    owners = packages_distributions()
    ours = {"crosslet", "service", "training", "export", "__future__"}
    undeclared = {
        name
        for path in (ROOT / package).rglob("*.py")
        for name in {module.split(".")[0] for module in imported_modules(path)} - ours - sys.stdlib_module_names
        if not {canonicalize_name(owner) for owner in owners.get(name, [name])} & names  # ray: not installed everywhere
    }
    assert undeclared == set()


def test_server_imports_no_torch_and_nothing_offline() -> None:
    code = "import sys, service.api.app, service.api.server, service.cli.serve; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = answer.stdout.split()
    assert "service.runtime" in loaded
    assert [name for name in loaded if name in HEAVY or name.startswith("service.offline")] == []


@pytest.mark.parametrize("module", ["torch", "transformers", "optimum", "sentence_transformers", "training", "export"])
def test_lint_refuses_a_heavy_import_only_under_service(tmp_path: Path, module: str) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    for package in ("service", "training"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "probe.py").write_text(f'"""A probe."""\n\nimport {module}\n', encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "--output-format", "concise"]
    lint = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert lint.returncode == 1
    assert f"service/probe.py:3:8: TID251 `{module}` is banned" in lint.stdout
    assert "training/probe.py" not in lint.stdout
