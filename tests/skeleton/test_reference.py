"""docs/reference: that its pages say what the code does."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from service.documents.collections import Collections
from service.engine.cache import VectorCache
from service.errors import HTTP_OF, ClientGone
from service.metrics import Metrics
from service.model.artifact import load_manifest
from service.settings import BUNDLED_MODEL
from tests.skeleton.project import ROOT

REFERENCE = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, ROOT / "scripts" / "reference.py", folder], check=True)
    return folder


@pytest.mark.parametrize("name", ["settings.md", "configuration.md", "clients.md"])
def test_the_committed_page_is_what_make_reference_writes(written: Path, name: str) -> None:
    assert page(name) == (written / name).read_text(encoding="utf-8"), "run make reference"


@pytest.mark.parametrize("name", ["settings.md", "configuration.md"])
def test_every_key_has_a_meaning(written: Path, name: str) -> None:
    lines = (written / name).read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("|`")]
    assert len(rows) > 30
    assert [row[0] for row in rows if len(row) < 3 or not row[-1]] == []


def test_metrics_page_lists_every_metric_with_its_type() -> None:
    metrics = Metrics(load_manifest(BUNDLED_MODEL))
    metrics.watch(
        queue_depth=lambda: 0,
        collections=cast(Collections, SimpleNamespace(named=dict, count=lambda: 0.0, size_bytes=0)),
        cache=VectorCache(0, fingerprint="", dim=1),
        memory_budget_bytes=0,
    )
    exposed = dict(re.findall(r"(?m)^# TYPE (crosslet_\w+) (\w+)$", metrics.exposition().decode()))
    listed = dict(re.findall(r"(?m)^\| `(crosslet_\w+?)(?:\{[\w,]+\})?` \| (\w+) \|", page("metrics.md")))
    assert listed == exposed


def test_every_status_of_an_error_is_listed_with_its_type() -> None:
    listed = set(re.findall(r"(?m)^\| (\d+) \| (\w+) \|", page("errors.md")))
    answered = {(str(status), error_type) for error, (status, error_type) in HTTP_OF.items() if error is not ClientGone}
    assert answered <= listed
