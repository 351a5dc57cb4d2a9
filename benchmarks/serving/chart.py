"""Draws the page's chart: texts a second and memory, a bar a peer."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "crosslet"  # reproducible files
from matplotlib import pyplot as plt  # noqa: E402 - after the choice of a backend

from benchmarks.serving.loads import BATCH_32, MANY  # noqa: E402
from benchmarks.serving.peers import OURS, OURS_BUNDLED  # noqa: E402
from benchmarks.serving.results import Run  # noqa: E402

OURS_COLOUR, PEER_COLOUR = "#1f6f5c", "#b9c2c8"


def draw_chart(run: Run, names: list[str], path: Path) -> None:
    """Write an SVG with three panels, for the largest core count measured."""
    cores = run.cores[0]
    panels = {
        f"texts/s, {MANY.name}": [run.load(name, cores, MANY, lambda one: one.texts_per_s) for name in names],
        f"texts/s, {BATCH_32.name}": [run.load(name, cores, BATCH_32, lambda one: one.texts_per_s) for name in names],
        "MiB at the peak": [run.process(name, cores, lambda one: one.peak_mib) for name in names],
    }
    figure, axes = plt.subplots(1, len(panels), figsize=(12, 0.42 * len(names) + 1.2), sharey=True)
    colours = [OURS_COLOUR if name in (OURS.name, OURS_BUNDLED.name) else PEER_COLOUR for name in names]
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        bars = axis.barh(names, [value or 0 for value in values], color=colours)
        axis.bar_label(bars, [_label(value) for value in values], padding=3, fontsize=9)
        axis.set_title(title, fontsize=10, loc="left")
        axis.spines[["top", "right", "bottom"]].set_visible(False)
        axis.set_xticks([])
        axis.set_xlim(0, max([value or 0 for value in values] + [1]) * 1.2)
    axes[0].invert_yaxis()
    figure.suptitle(
        f"Over HTTP on {cores} cores; all but the bundled model have the weights of all-MiniLM-L6-v2",
        fontsize=11,
        x=0.01,
        ha="left",
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _label(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
