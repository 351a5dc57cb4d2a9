"""What a finished run tells its user: scores, where the model is, its size, and the next command."""

from __future__ import annotations

import json

from training.evaluation.report import HELD_OUT_METRIC
from training.pipeline.run import CHECKPOINT, Run

NAMES = {
    HELD_OUT_METRIC: "translation found first, of pairs held out of training",
    "tatoeba_p1": "translation found first, Tatoeba",
    "stsb_test": "similarity, English with the others, STSb test",
    "sts2017": "similarity, English with the others, STS2017",
}


def ending(run: Run) -> str:
    """A few lines of text."""
    folder = run.out / "final" / CHECKPOINT
    by_step = json.loads((folder / "crosslet.json").read_text(encoding="utf-8"))["evaluation"]["averages_by_step"]
    last, start = by_step[run.models[-1]], by_step.get("start", {})
    lines = [f"{title}: {_score(metric, last, start)}" for metric, title in NAMES.items() if metric in last]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    lines.append(f"model: {folder}, {size / 1e6:.0f} MB")
    export = f"--checkpoint {folder} --out models/{run.config.name} --word-bits 4"
    lines.append(f'next: make export ARGS="{export}"')
    return "\n".join(lines)


def _score(metric: str, last: dict[str, float], start: dict[str, float]) -> str:
    before = f" ({start[metric]:.1f} before training)" if metric in start else ""
    return f"{last[metric]:.1f}{before}"
