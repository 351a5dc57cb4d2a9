import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.skeleton.project import ROOT, pyproject

HEAVY = {"torch", "transformers", "optimum", "sentence_transformers", "onnx"}


# What a room may import beside itself and the errors. Rooms that may import everything are not listed.
DOCUMENT_TYPES = {f"service.documents.{name}" for name in ("filters", "mode", "protocol", "query", "results")}
ARROWS = {
    "service.process": set(),
    "service.model": {"service.process"},
    "service.engine": {"service.model", "service.blending"},
    "service.api.schemas": {
        *("service.documents.mode", "service.documents.store.fields", "service.invisible", "service.spelling"),
    },
    "service.documents.keywords": DOCUMENT_TYPES | {"service.blending", "service.invisible"},
    "service.documents.store": DOCUMENT_TYPES | {"service.documents.keywords", "service.process.files"},
    "service.documents.vectors": DOCUMENT_TYPES | {"service.documents.store", "service.process.files"},
    "service.documents.milvus": DOCUMENT_TYPES | {"service.documents.backend", "service.documents.store"},
    "service.documents": {"service.process.files"},
    "service.api": {
        *("service.documents", "service.engine", "service.json_parsing", "service.metrics", "service.model"),
        *("service.blending", "service.preparation", "service.process", "service.runtime", "service.api.schemas"),
        "service.version",
    },
    "service.documents.readers": {"service.documents.store", "service.json_parsing"},
    "service.offline": {
        *("service.document_index", "service.documents", "service.engine", "service.json_parsing", "service.model"),
        *("service.process", "service.runtime", "service.api.schemas", "service.settings"),
    },
    "training.system": set(),
    "training.config": set(),
    "training.corpora.sources": {"training.config", "training.system"},
    "training.corpora.cleaning": {"training.config", "training.corpora.sources", "training.system"},
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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_module(name: str) -> bool:
    """False for the names within a module, and for packages."""
    return (ROOT / f"{name.replace('.', '/')}.py").is_file()


def offences(package: str, banned: set[str]) -> list[str]:
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources, f"{package}/ has no sources"
    return [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sources
        for module in imported_modules(path)
        if module.split(".")[0] in banned
    ]


def test_the_service_imports_neither_training_nor_export_nor_torch() -> None:
    assert offences("service", HEAVY | {"training", "export"}) == []


def test_training_imports_neither_the_service_nor_export_but_to_score_and_align_what_is_served() -> None:
    found = offences("training", {"service", "export"})
    allowed = (
        "training/__init__.py: service.process.",
        "training/adaptation/artifact.py: export.",
        "training/adaptation/artifact.py: service.model.artifact",
        "training/alignment/output.py: export.",
        "training/alignment/output.py: service.model.artifact",
        "training/evaluation/arguments.py: service.blending",
        "training/evaluation/arguments.py: service.spelling",
        "training/evaluation/encoders.py: service.",
        "training/evaluation/keywords.py: service.documents.store.store",
        "training/evaluation/keywords.py: service.errors",
        "training/evaluation/mining.py: service.offline.margin",
        "training/evaluation/served_reranker.py: service.",
        "training/evaluation/search.py: service.documents.keywords.fusion",
        "training/reranking/scorers.py: service.blending",
    )
    assert [line for line in found if not line.startswith(allowed)] == []


def test_export_takes_the_contract_and_what_reads_it_but_to_map_vectors() -> None:
    found = offences("export", {"service"})
    assert found
    model = r"model(\.(artifact|encoder|reranker|session|tokenizer)(\.\w+)?)?"
    contract = rf"{model}|process(\.(files|telemetry_off)(\.\w+)?)?|version(\.\w+)?"
    allowed = rf": service(\.({contract}))?$|export/space\.py: service\."
    assert [line for line in found if not re.search(allowed, line)] == []


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
    ("package", "extras"),
    [
        ("service", ["milvus", "milvus-lite", "parquet", "ray"]),
        ("training", ["training", "models", "mteb"]),
        ("export", ["training", "export"]),
    ],
)
def test_every_imported_package_is_a_declared_dependency(package: str, extras: list[str]) -> None:
    project = pyproject()["project"]
    lines = project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    owners = packages_distributions()
    ours = {"service", "training", "export", "__future__"}
    undeclared = {
        name
        for path in (ROOT / package).rglob("*.py")
        for name in {module.split(".")[0] for module in imported_modules(path)} - ours - sys.stdlib_module_names
        if not {canonicalize_name(owner) for owner in owners.get(name, [name])}
        & declared  # ray: not installed everywhere
    }
    assert undeclared == set()


def test_server_imports_no_torch_and_nothing_offline() -> None:
    code = "import sys, service.api.app, service.api.server, service.cli.serve; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = answer.stdout.split()
    assert "service.runtime" in loaded
    assert [name for name in loaded if name in HEAVY or name.startswith("service.offline")] == []


@pytest.mark.parametrize("module", ["torch", "transformers", "optimum", "sentence_transformers", "training", "export"])
def test_lint_refuses_a_heavy_import_under_service_and_only_there(tmp_path: Path, module: str) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    for package in ("service", "training"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "probe.py").write_text(f'"""A probe."""\n\nimport {module}\n', encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "--output-format", "concise"]
    lint = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert lint.returncode == 1
    assert f"service/probe.py:3:8: TID251 `{module}` is banned" in lint.stdout
    assert "training/probe.py" not in lint.stdout
