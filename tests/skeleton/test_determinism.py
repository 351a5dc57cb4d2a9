"""What tests are made with is the same in every process: none passes or fails by the order of a hash."""

import os
import subprocess
import sys

import pytest

from tests.skeleton.project import ROOT

BUILD = """
import hashlib, tempfile
from pathlib import Path
from tests.artifacts import TEXTS, build_artifact
from tests.reranker_artifact import build_reranker
from tests.training.models.bases import FAMILIES, save_family
from tests.training.reranking.small import student_base
from tests.vocabularies import bpe

with tempfile.TemporaryDirectory() as scratch:
    root = Path(scratch)
    build_artifact(root / "artifact", fails_on="kaputt")
    build_reranker(root / "reranker")
    student_base(root / "student")
    for name in FAMILIES:
        save_family(name, root / name, TEXTS)
    bpe(TEXTS).save(str(root / "bpe.json"))
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        print(path.relative_to(root), hashlib.sha256(path.read_bytes()).hexdigest())
"""


def built(hash_seed: str | None) -> list[str]:
    """Name and digest of each file, built by a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = hash_seed
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_every_process_builds_the_same_models() -> None:
    first, *others = map(built, ("0", "1", None))
    assert {line.split("/")[0] for line in first} > {"artifact", "reranker", "student", "bert", "xlm-roberta"}
    assert others == [first, first]
