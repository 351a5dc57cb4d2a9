"""How a model grows with the pairs it has seen: a plot from the logs that training runs leave, and a table.

python -m benchmarks.growth NAME=STAGE_FOLDER... --out docs/results/growth.svg

STAGE_FOLDER has log.jsonl and, where the stage validates, dev.jsonl; several for one name follow each other. Prints
what the loss lost with each doubling of the pairs, by a line fitted over the logarithm of the pairs. Seconds.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "crosslet"  # the same figures give the same file
from matplotlib import pyplot as plt  # noqa: E402 - after the choice of a backend

FITTED_FROM = 0.1  # of a run's pairs: before, the rates still warm up
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Growth:
    """One run, its stages one after the other.  losses: of the translated side.  scores: on the dev set."""

    name: str
    loss_pairs: Numbers
    losses: Numbers
    score_pairs: Numbers
    scores: Numbers

    def loss_of_a_doubling(self) -> float:
        """What the loss lost with each doubling of the pairs."""
        late = self.loss_pairs > FITTED_FROM * self.loss_pairs[-1]
        slope, _ = np.polyfit(np.log2(self.loss_pairs[late]), self.losses[late], 1)
        return float(slope)


def read_growth(name: str, folders: list[Path]) -> Growth:
    """The logs of a run's stages; pairs are counted on from one to the next."""
    losses: list[tuple[float, float]] = []
    scores: list[tuple[float, float]] = []
    before = 0.0
    for folder in folders:
        lines = _lines(folder / "log.jsonl")
        losses += [(before + line["pairs"], line["target"]) for line in lines]
        scores += [(before + line["pairs"], line["score"]) for line in _lines(folder / "dev.jsonl")]
        before += lines[-1]["pairs"]
    return Growth(name, *np.array(losses).T, *np.array(scores).reshape(-1, 2).T)


def draw(runs: list[Growth], path: Path) -> None:
    """Two panels: the dev score and the loss, over the logarithm of the pairs."""
    figure, (scores, losses) = plt.subplots(1, 2, figsize=(11, 4))
    for run in runs:
        scores.plot(run.score_pairs, run.scores, marker="o", label=run.name)
        losses.plot(run.loss_pairs, _smooth(run.losses), label=run.name)
    for axes, title in (
        (scores, "STSb dev, English against 12 languages, Spearman x 100"),
        (losses, "loss of the translated side"),
    ):
        axes.set_xscale("log")
        axes.set_xlabel("pairs seen")
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    scores.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def _smooth(values: Numbers, width: int = 15) -> Numbers:
    """Running median: a batch's loss is noisy."""
    return np.array([np.median(values[max(0, place - width) : place + width + 1]) for place in range(len(values))])


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main() -> None:
    """Draw the runs and print a line of each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("stages", nargs="+", metavar="NAME=STAGE_FOLDER")
    parser.add_argument("--out", type=Path, required=True, help="SVG file to write")
    options = parser.parse_args()
    folders: dict[str, list[Path]] = {}
    for stage in options.stages:
        name, _, folder = stage.rpartition("=")
        folders.setdefault(name, []).append(Path(folder))
    runs = [read_growth(name, paths) for name, paths in folders.items()]
    draw(runs, options.out)
    print("| run | pairs | loss at the end | with each doubling | dev at the end |\n|---|---:|---:|---:|---:|")
    for run in runs:
        dev = f"{run.scores[-1]:.1f}" if len(run.scores) else "-"
        end = np.median(run.losses[-20:])
        print(f"| {run.name} | {run.loss_pairs[-1]:,.0f} | {end:.3f} | {run.loss_of_a_doubling():+.3f} | {dev} |")


if __name__ == "__main__":
    main()
