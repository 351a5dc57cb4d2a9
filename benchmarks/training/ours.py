"""Runs each stage in crosslet's training loop."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.training.bench import CPU, Bench
from training.config.run import ContrastiveConfig, StageConfig
from training.optimisation.batches import BatchStream, FixedPlan
from training.optimisation.loop import Objective, train
from training.stages.assistant import assistant_objective
from training.stages.bottleneck import bottleneck_objective
from training.stages.contrastive import contrastive_objective
from training.stages.student import student_objective


def run_ours(bench: Bench, stage: str) -> float:
    """Train a stage on all pairs; returns seconds."""
    settings = {"pairs": len(bench.english), "batch_size": bench.batch_size, "max_length": bench.max_length}
    config = ContrastiveConfig(**settings) if stage == "contrastive" else StageConfig(**settings)
    objective = our_objective(bench, stage, config)
    plan = FixedPlan(np.arange(len(bench.english)))
    batches = BatchStream(plan, bench.pairs.pair_lengths, bench.batch_size, seed=0, epoch_pairs=len(plan))
    with tempfile.TemporaryDirectory() as folder:
        started = bench.clock()
        train(objective, batches, config, Path(folder), name=stage, checkpoint_minutes=60, device=CPU)
        return bench.clock() - started


def our_objective(bench: Bench, stage: str, config: Any) -> Objective:
    if stage == "assistant":
        return assistant_objective(bench.model("assistant"), bench.labels, bench.pairs)
    assistant, student = bench.model("assistant").requires_grad_(False), bench.model("student")
    if stage == "bottleneck":
        return bottleneck_objective(assistant, student, bench.pairs)
    if stage == "student":
        return student_objective(assistant, student, bench.pairs)
    return contrastive_objective(student, bench.labels, bench.pairs, config)
