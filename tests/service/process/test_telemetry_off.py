import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from service.process.telemetry_off import TELEMETRY_OFF
from tests.skeleton.project import ROOT

REPORTING = ["accelerate", "datasets", "huggingface_hub", "onnxruntime", "optimum", "ray", "transformers"]


def environment(home: Path, **variables: str) -> dict[str, str]:
    """That of a user who has set nothing else; ONNX Runtime reports nothing where CI is set."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(home), **variables}


@pytest.mark.parametrize("package", ["service", "training", "export", "benchmarks"])
def test_packages_switch_telemetry_off_before_any_library(tmp_path: Path, package: str) -> None:
    code = f"""
import os, sys
import {package}
print({{name: os.environ.get(name) for name in {list(TELEMETRY_OFF)}}} == {TELEMETRY_OFF})
print(sorted(set({REPORTING}) & sys.modules.keys()))
"""
    variables = environment(tmp_path, ORT_DISABLE_TELEMETRY="0", RAY_USAGE_STATS_ENABLED="1")
    answer = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["True", "[]"]


def test_onnx_runtime_leaves_no_file_in_the_home_of_a_user(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import service.model.session"]
    subprocess.run(command, env=environment(tmp_path), check=True)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("image", "libraries"),
    [("service", {"ORT_DISABLE_TELEMETRY"}), ("training", TELEMETRY_OFF.keys() - {"RAY_USAGE_STATS_ENABLED"})],
)
def test_images_set_the_telemetry_switches(image: str, libraries: set[str]) -> None:
    text = (ROOT / "docker" / f"{image}.Dockerfile").read_text(encoding="utf-8")
    found = dict(re.findall(r"(?m)^ +([A-Z_]+)=(\S+)", text))
    assert {name: found.get(name) for name in libraries} == {name: TELEMETRY_OFF[name] for name in libraries}


def test_minio_beside_milvus_does_not_ask_for_a_newer_version() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert services["minio"]["environment"]["MINIO_UPDATE"] == "off"
