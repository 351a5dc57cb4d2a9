import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from service.model.reranker import Reranker
from tests.artifacts import build_artifact
from tests.skeleton.project import ROOT
from tests.training.reranking.small import THINGS, settings, student_base, write_data

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*command: str) -> str:
    """A command's standard output."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_commands_train_evaluate_export_and_score(tmp_path: Path) -> None:
    data, base = write_data(tmp_path / "data"), student_base(tmp_path / "base")
    config, out, artifact = tmp_path / "small.yaml", tmp_path / "run", tmp_path / "artifact"
    build_artifact(tmp_path / "encoder")  # only `export.train` reads artifacts
    measure = settings(base)["measure"] | {"bi_encoder": str(tmp_path / "encoder")}
    config.write_text(yaml.safe_dump(settings(base, measure=measure)), encoding="utf-8")
    run("-m", "export.train", "--config", str(config), "--data", str(data), "--out", str(out))
    best = str(out / "final/best")
    evaluate = ("-m", "export.evaluation", "--data", str(data), "--sets", "rerank")
    trained = json.loads(run(*evaluate, best))
    record = json.loads((out / "final/best/crosslet.json").read_text(encoding="utf-8"))
    assert record["evaluation"]["xset, acc@1"].keys() == {"re-ranker", "BM25", "bi-encoder"}
    assert record["data"] == [
        {"source": "train", "licence": "see the source", "url": "", "pairs": len(THINGS[:9]) - 3},
        {"source": "talk", "licence": "see the source", "url": "", "pairs": 36},
    ]
    run("-m", "export", "--checkpoint", best, "--out", str(artifact), "--precision", "fp32")
    assert json.loads(run(*evaluate, str(artifact))) == trained
    gate = ("--min-rank-correlation", "-1", "--max-acc1-drop", "100")  # so small a model loses much to int8
    run("-m", "export", "--checkpoint", best, "--out", str(artifact), "--force", *gate)
    facts = json.loads(run("-c", f"from service.cli.main import main; main(['info', {str(artifact)!r}])"))
    assert (facts["kind"], facts["name"], facts["training"]["git_commit"]) == (
        "cross-encoder",
        "small",
        record["git_commit"],
    )
    assert facts["evaluation"]["export"]["questions"] == 3
    assert json.loads(run(*evaluate, str(artifact))).keys() == trained.keys()
    reranker = Reranker.load(artifact)
    tokens = reranker.tokenize("where is the cat today", "the cat is in the house and stays there")
    assert 0 <= reranker.score(tokens) == reranker.score(tokens) <= 1
