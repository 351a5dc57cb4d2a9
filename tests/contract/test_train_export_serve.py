"""The whole path in one test: our own parallel text, every training step, export in both precisions, a live service."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from service.model.artifact import load_manifest, verify_files
from tests.parallel_text import write_data_folder
from tests.skeleton.compose import binds, compose

ROOT = Path(__file__).parents[2]
SHORT = [
    "The teacher buys a book.",
    "Der Lehrer kauft ein Buch.",
    "El profesor compra un libro.",
    "Mi hermana ve el mar.",
]
TEXTS = [*SHORT, " ".join(SHORT), "Ok", "¿Qué?", "Zwei Fahrräder, ein Boot & 3 Äpfel", " ".join(SHORT * 20)]
TRAINING_LIMIT_S = 300
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7 * TRAINING_LIMIT_S)]  # the run is a fixture of the first test


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
        timeout=6 * TRAINING_LIMIT_S,
    )
    print(f"\ntraining/run.sh took {time.monotonic() - started:.0f} s; the issue allows {TRAINING_LIMIT_S}")
    return root / "out"


@pytest.fixture(scope="module")
def student(run_folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(run_folder / "final/checkpoint"), device="cpu")


def served_cosines(artifact: Path, store: Path, student: SentenceTransformer) -> np.ndarray:
    """Between the vectors of a service of this artifact and the student's own."""
    from tests.contract.live import live_service

    with live_service(artifact, store) as client:
        served = np.array(client.post("/embed", json={"inputs": TEXTS}).json())
    cosines: np.ndarray = (served * student.encode(TEXTS, normalize_embeddings=True)).sum(axis=1)
    return cosines


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
    artifact = export(run_folder, precision, tmp_path / precision)
    verify_files(artifact, load_manifest(artifact))
    assert served_cosines(artifact, tmp_path / "store", student).min() >= cosine


def test_compose_serves_what_its_export_made(run_folder: Path, student: SentenceTransformer, tmp_path: Path) -> None:
    """The documented commands without containers: their folders are links, their root is `tmp_path`."""
    documented = (ROOT / "docs/guide/compose.md").read_text(encoding="utf-8")
    (arguments,) = re.findall(r"docker compose run --build export (.+)", documented)
    (model,) = set(re.findall(r"CROSSLET_MODEL=(\S+) docker compose up", documented))
    services = compose()["services"]
    assert services["service"]["environment"]["CROSSLET_MODEL"] is None  # as the shell has it
    checkout = tmp_path / "checkout"
    (checkout / "runs").mkdir(parents=True)
    (checkout / "runs/mine").symlink_to(run_folder)
    (checkout / "models").mkdir()
    for source, target, _ in binds(services["export"]):
        (tmp_path / target[1:]).symlink_to(checkout / source)
    program, *options = services["export"]["entrypoint"]
    assert program == "python"
    command = [sys.executable, *options, *shlex.split(arguments)]
    subprocess.run(command, cwd=tmp_path / services["export"]["working_dir"][1:], check=True, timeout=300)

    served_folder = checkout / {target: source for source, target, _ in binds(services["service"])}["/models"]
    path = tmp_path / services["service"]["working_dir"][1:] / model
    assert path.resolve().parent == served_folder.resolve()
    assert served_cosines(path, tmp_path / "store", student).min() >= 0.99
