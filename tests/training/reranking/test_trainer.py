"""A stage of a re-ranker, killed in the middle."""

import json
from pathlib import Path

import pytest
import torch

from tests.training.reranking.small import PAIRS, a_ranking_set, student_base
from training.models.cross_encoder import load_base
from training.reranking.checkpoint import load_cross_encoder
from training.reranking.config import RerankConfig, RerankStageConfig, SourceConfig
from training.reranking.trainer import BEST, LAST, BestKeeper, train_stage

STAGE = RerankStageConfig(epochs=2.0, batch_size=16, learning_rate=3e-3, bf16=False, validate_pairs=64)


def run(base: Path, folder: Path) -> None:
    config = RerankConfig(
        kind="reranker",
        name="small",
        languages=["en", "xx"],
        train=[SourceConfig(path="x")],
        max_length=32,
        checkpoint_minutes=0.0,
    )
    model, tokenizer = load_base(str(base), attention="eager")
    train_stage(model, tokenizer, PAIRS, a_ranking_set(), config, STAGE, folder, device=torch.device("cpu"))


def test_a_killed_stage_ends_as_an_undisturbed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = student_base(tmp_path / "base")
    run(base, tmp_path / "whole")
    validate, calls = BestKeeper.__call__, []

    def killed(self: BestKeeper) -> float:
        calls.append(self)
        if len(calls) == 3:  # of five: in the second epoch
            raise KeyboardInterrupt
        return validate(self)

    with monkeypatch.context() as patched:
        patched.setattr(BestKeeper, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            run(base, tmp_path / "resumed")
    assert not (tmp_path / "resumed" / LAST).exists()
    run(base, tmp_path / "resumed")
    for name in (BEST, LAST):
        whole, _, _ = load_cross_encoder(tmp_path / "whole" / name)
        resumed, _, _ = load_cross_encoder(tmp_path / "resumed" / name)
        for key, expected in whole.state_dict().items():
            torch.testing.assert_close(resumed.state_dict()[key], expected, msg=f"{name}: {key}")
    logs = [(tmp_path / folder / "dev.jsonl").read_text().splitlines() for folder in ("whole", "resumed")]
    scores = [[(row["pairs"], row["score"]) for row in map(json.loads, lines)] for lines in logs]
    assert scores[0] == scores[1]
