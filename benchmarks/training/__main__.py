"""Sentences a second of each training stage: crosslet's loop against the same steps in sentence-transformers' trainer.

`python -m benchmarks.training --data DIR [--write]` (docs/guide/train.md). Same model, vocabulary, pairs, batch
size, loss and precision (bf16 if the CPU has it). Rounds are interleaved, and medians compared. Theirs follows their
make-multilingual example: a column of labels computed beforehand by the teacher, MSELoss, bf16=True. It runs with
fused attention (their default) and with eager attention; ours is compared with the faster.
Theirs tokenises in every step. Ours tokenises once, beforehand; that time is reported separately. In stage 3 both
compute the assistant's embeddings on the fly. `--cpu-seconds` counts CPU time, for machines shared with other work.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from benchmarks.training.bench import CPU, Bench, prepare
from benchmarks.training.theirs import run_theirs
from training.config.run import ContrastiveConfig, StageConfig
from training.optimisation.batches import BatchStream, FixedPlan
from training.optimisation.loop import Objective, train
from training.stages.objectives import (
    assistant_objective,
    bottleneck_objective,
    contrastive_objective,
    student_objective,
)
from training.system.device import describe_hardware, has_bf16

PAGE = Path(__file__).parents[2] / "docs/results/training.md"
STAGES = {
    "assistant": "1, eq. (2)",
    "bottleneck": "2, eq. (3)",
    "student": "3, eq. (4)",
    "contrastive": "4, eqs. (5)-(7)",
}


def measure(bench: Bench, stages: list[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Sentences a second by stage and trainer; the first round is a warm-up."""
    runners: dict[str, Callable[[str], float]] = {
        "ours": lambda stage: run_ours(bench, stage),
        "theirs, sdpa": lambda stage: run_theirs(bench, stage, "sdpa"),
        "theirs, eager": lambda stage: run_theirs(bench, stage, "eager"),
    }
    rates: dict[str, dict[str, list[float]]] = {stage: {name: [] for name in runners} for stage in stages}
    for number in range(rounds + 1):
        for stage in stages:
            for name, run in runners.items():
                rate = 2 * len(bench.english) / run(stage)
                print(f"round {number} {stage} {name}: {rate:.1f} sentences/s", flush=True)
                if number:
                    rates[stage][name].append(rate)
    return rates


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


def table(rates: dict[str, dict[str, list[float]]]) -> str:
    lines = ["| stage | theirs, sdpa | theirs, eager | ours | ours to the faster of theirs |", "|---|--:|--:|--:|--:|"]
    for stage, by_name in rates.items():
        median = {name: statistics.median(values) for name, values in by_name.items()}
        ratio = median["ours"] / max(median["theirs, sdpa"], median["theirs, eager"])
        figures = " | ".join(f"{median[name]:.0f}" for name in ("theirs, sdpa", "theirs, eager", "ours"))
        lines.append(f"| {STAGES[stage]} | {figures} | **{ratio:.2f}** |")
    return "\n".join(lines)


def circumstances(options: argparse.Namespace, bench: Bench, tokenising_s: float) -> str:
    lengths = bench.pairs.tokens.lengths
    return (
        f"Sentences a {'second of processor time' if options.cpu_seconds else 'second'}. {describe_hardware()}, "
        f"torch {torch.__version__}, {'bf16' if has_bf16(CPU) else 'float32'}. Batches of {options.batch_size} pairs, "
        f"{options.steps} in a run, at most {options.max_length} tokens a sentence (mean {lengths.mean():.1f}, longest "
        f"{lengths.max()}), languages {options.languages}. Medians of {options.rounds} interleaved rounds after one to "
        f"warm up. Ours tokenised its {len(lengths)} sentences beforehand, in {tokenising_s:.2f} s."
    )


def command(options: argparse.Namespace) -> str:
    flags = {name: getattr(options, name) for name in ("languages", "batch_size", "max_length", "steps", "rounds")}
    text = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in flags.items())
    threads = f"OMP_NUM_THREADS={torch.get_num_threads()}"
    clock = " --cpu-seconds" if options.cpu_seconds else ""
    return f"`{threads} python -m benchmarks.training --data DIR {text}{clock}`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", default="de,fr,es,tr")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=16, help="batches a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--cpu-seconds", action="store_true", help="measure CPU time instead of wall time")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.name}")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    set_verbosity_error()
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as work:
        bench, tokenising_s = prepare(options, Path(work))
        rates = measure(bench, options.stages.split(","), options.rounds)
    page = "\n\n".join([table(rates), circumstances(options, bench, tokenising_s), command(options)])
    print(page)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- measured -->\n")
        after = rest.partition("<!-- end -->")[2]
        PAGE.write_text(f"{before}<!-- measured -->\n{page}\n<!-- end -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
