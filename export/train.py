"""`python -m export.train` and `crosslet ablate`: training that can also read artifacts.

A re-ranker's configuration may name an artifact: to find hard negatives, or to be measured on the same sets.
"""

from __future__ import annotations

import sys

from export.evaluation.models import load_model
from training.__main__ import main as train_without_artifacts
from training.ablation.__main__ import main as ablate_without_artifacts


def train(arguments: list[str] | None = None) -> int:
    """Run `python -m training`. Returns its exit status."""
    return train_without_artifacts(arguments, load_model=load_model)


def ablate(arguments: list[str] | None = None) -> int:
    """Run `crosslet ablate`. Returns its exit status."""
    return ablate_without_artifacts(arguments, load_model=load_model)


if __name__ == "__main__":
    sys.exit(train())
