"""The whole path in one test: our own parallel text, every training step, export in both precisions, a live service."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from service.artifact import load_manifest, verify_files
from tests.parallel_text import write_data_folder

ROOT = Path(__file__).parents[2]
SHORT = [
    "The teacher buys a book.",
    "Der Lehrer kauft ein Buch.",
    "El profesor compra un libro.",
    "Mi hermana ve el mar.",
]
TEXTS = [*SHORT, " ".join(SHORT), "Ok", "¿Qué?", "Zwei Fahrräder, ein Boot & 3 Äpfel", " ".join(SHORT * 20)]
TRAINING_LIMIT_S = 300
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * TRAINING_LIMIT_S)]  # the run is a fixture of the first test


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of training/configs/smoke.yaml on 2,000 pairs."""
    root = tmp_path_factory.mktemp("run")
    write_data_folder(root / "data")
    command = [ROOT / "training/run.sh", "--config", ROOT / "training/configs/smoke.yaml"]
    environment = {**os.environ, "CROSSLET_PYTHON": sys.executable}
    started = time.monotonic()
    subprocess.run(
        [*command, "--data", root / "data", "--out", root / "out"],
        env=environment,
        check=True,
        timeout=2 * TRAINING_LIMIT_S,
    )
    print(f"\ntraining/run.sh took {time.monotonic() - started:.0f} s; the issue allows {TRAINING_LIMIT_S}")
    return root / "out"


@pytest.fixture(scope="module")
def student(run_folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(run_folder / "final/checkpoint"), device="cpu")


def export(run_folder: Path, precision: str, out: Path) -> Path:
    command = [sys.executable, "-m", "export", "--checkpoint", run_folder / "final/checkpoint", "--out", out]
    subprocess.run([*command, "--precision", precision], cwd=ROOT, check=True, timeout=300)
    return out


def test_every_step_left_its_log_and_its_scores(run_folder: Path) -> None:
    for stage in ("assistant", "bottleneck", "student", "contrastive"):
        log = [json.loads(line) for line in (run_folder / stage / "log.jsonl").read_text().splitlines()]
        assert log, stage
        assert log[-1]["pairs_per_s"] > 0, stage
        assert not (run_folder / stage / "state.pt").exists()
    alignment = json.loads((run_folder / "bottleneck/alignment.json").read_text())
    assert alignment["after"] <= alignment["before"]
    summary = json.loads((run_folder / "final/checkpoint/crosslet.json").read_text())
    scores = summary["evaluation"]["averages_by_step"]
    assert scores["contrastive"]["tatoeba_p1"] > scores["start"]["tatoeba_p1"]


@pytest.mark.parametrize(("precision", "cosine"), [("fp32", 0.99999), ("int8", 0.99)])
def test_the_artifact_gives_the_students_vectors_when_served(
    run_folder: Path, student: SentenceTransformer, tmp_path: Path, precision: str, cosine: float
) -> None:
    from tests.contract.live import live_service

    artifact = export(run_folder, precision, tmp_path / precision)
    verify_files(artifact, load_manifest(artifact))
    with live_service(artifact, tmp_path / "store") as client:
        served = np.array(client.post("/embed", json={"inputs": TEXTS}).json())
    cosines = (served * student.encode(TEXTS, normalize_embeddings=True)).sum(axis=1)
    assert cosines.min() >= cosine
