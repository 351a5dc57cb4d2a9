import re

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.skeleton.project import ROOT, declared, lock, locked_versions, pyproject

EXTRAS = ("milvus", "mcp", "traces", "openai-ids")  # of the service, each with its lock
SERVED = ["service.txt", *(f"{extra}.txt" for extra in EXTRAS)]
LOCKS = [
    *SERVED,
    "training.txt",
    "dev.txt",
    "build.txt",
    "milvus-server.txt",
    "sbom.txt",
    "torch-cpu.txt",
    "torch-cuda.txt",
]
ALL = (*pyproject()["project"]["optional-dependencies"], *pyproject()["dependency-groups"])


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("service.txt", ()),
        *((f"{extra}.txt", (extra,)) for extra in EXTRAS),
        ("training.txt", ("training", "export", "models")),
        ("dev.txt", ALL),
    ],
)
def test_the_lock_satisfies_every_declared_dependency(name: str, parts: tuple[str, ...]) -> None:
    versions = locked_versions(name)
    for requirement in declared(*parts):
        if requirement.name in ("crosslet", "torch"):
            continue
        pinned = versions.get(canonicalize_name(requirement.name))
        assert pinned, f"{requirement.name} is not in requirements/{name}: run `make lock`"
        assert all(requirement.specifier.contains(version, prereleases=True) for version in pinned), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_requirement_carries_a_hash(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert lines
    assert [line for line in lines if not re.search(r"--hash=sha256:[0-9a-f]{64}", line)] == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_index_folder_or_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    assert re.findall(r"(?m)^\s*(?:-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host).*", text) == []
    assert [str(requirement) for requirement in lock(name) if requirement.url] == []


@pytest.mark.parametrize("name", SERVED)
def test_a_lock_of_the_service_holds_no_training_package(name: str) -> None:
    heavy = re.compile(r"torch|transformers|optimum.*|sentence-transformers|onnx|scipy|triton|nvidia-.*|cuda-.*")
    assert [package for package in locked_versions(name) if heavy.fullmatch(package)] == []


@pytest.mark.parametrize("name", ["dev.txt", "training.txt"])
def test_the_locks_used_beside_torch_hold_no_cuda_package(name: str) -> None:
    cuda = re.compile(r"torch|triton|nvidia-.*|cuda-.*")
    assert [package for package in locked_versions(name) if cuda.fullmatch(package)] == []


@pytest.mark.parametrize("name", [*SERVED, "training.txt", "build.txt", "torch-cuda.txt"])
def test_tests_run_the_versions_that_are_installed_elsewhere(name: str) -> None:
    tested = locked_versions("dev.txt")
    shared = {package: versions for package, versions in locked_versions(name).items() if package in tested}
    assert shared
    assert {package: tested[package] for package in shared} == shared


def test_the_cpu_and_the_cuda_lock_pin_the_same_torch() -> None:
    releases = {
        Version(version).public
        for name in ("torch-cpu.txt", "torch-cuda.txt")
        for version in locked_versions(name)["torch"]
    }
    declared_torch = [requirement for requirement in declared(*ALL) if requirement.name == "torch"]
    assert declared_torch
    assert len(releases) == 1
    assert all(requirement.specifier.contains(releases.copy().pop()) for requirement in declared_torch)


def test_the_build_lock_pins_the_declared_build_backend() -> None:
    (backend,) = pyproject()["build-system"]["requires"]
    assert f"hatchling=={locked_versions('build.txt')['hatchling'].pop()}" == backend
