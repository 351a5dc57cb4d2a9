"""Draws the figures of reports, one SVG a panel.

Shapes: S sentences, L languages.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from training.ablation.results import Result, Results
from training.ablation.spec import Metric

INK = "#1f2328"  # text and axes
COLOURS = ("#3b82c4", "#d9772b", "#3f9b5f", "#c8504f", "#8f6cc0", "#a37f42", "#c9649c", "#6f7d8a", "#2aa1a8", "#9aa12c")
DASHES = ("-", "--", ":", "-.")
METRIC_NAMES: dict[Metric, str] = {"mono": "within a language", "cross": "against English", "tatoeba": "Tatoeba P@1"}
NO_LOSSES = {"step", "pairs", "epoch", "learning_rates", "pairs_per_s"}  # other keys of a log's line
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "crosslet",  # reproducible files
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.14,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "axes.prop_cycle": cycler(color=COLOURS),
}


@dataclass(frozen=True)
class Panel:
    """One drawing. `text`: its alternative text."""

    name: str  # of its file
    text: str
    svg: str


@contextmanager
def panel(name: str, text: str, *, title: str, into: list[Panel]) -> Iterator[Axes]:
    """Yield axes to draw on, then append the finished panel to `into`."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.5), layout="constrained")
        axes = figure.add_subplot(title=title)
        yield axes
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    into.append(Panel(name, text, buffer.getvalue()))


def add_legend(axes: Axes) -> None:
    """Name the lines below the axes, where the names cover no line."""
    longest = max(len(label) for label in axes.get_legend_handles_labels()[1])
    axes.figure.legend(loc="outside lower center", ncols=4 if longest <= 20 else 2)


def count_pairs(axes: Axes) -> None:
    """Label the x axis with pairs seen, at few enough numbers for their length."""
    axes.set_xlabel("pairs seen")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def draw_layers(names: list[str], results: Results) -> list[Panel]:
    """Score against the number of layers, for students without bottleneck and recurrence (Fig. 1 of the paper)."""
    lines: dict[str, list[str]] = {}
    for name in names:
        if results.cells[name].scores is not None:
            config = results.cells[name].cell.config
            lines.setdefault((config.base or config.teacher).rpartition("/")[2], []).append(name)
    return _draw_depths("layers", lines, results, label="layers") if lines else []


def draw_depth(names: list[str], results: Results) -> list[Panel]:
    """Score against the number of stored layers, M, with recurrence up to the full depth and without."""
    shapes = {n: results.cells[n].cell.config.student for n in names if results.cells[n].scores is not None}
    if not shapes:
        return []
    depth = max(shape.unit_layers * shape.recurrences for shape in shapes.values())
    lines = {
        f"applied {depth}/M times": [n for n, s in shapes.items() if s.unit_layers * s.recurrences == depth],
        "applied once": [n for n, s in shapes.items() if s.recurrences == 1],
    }
    return _draw_depths("depth", lines, results, label="layers stored, M")


def _draw_depths(stem: str, lines: dict[str, list[str]], results: Results, *, label: str) -> list[Panel]:
    """Two panels, across languages and within one: a line's cells by their number of layers."""
    panels: list[Panel] = []
    layers = {n: results.cells[n].cell.config.student.unit_layers for names in lines.values() for n in names}
    metrics: tuple[Metric, ...] = ("cross", "mono")
    for metric in metrics:
        text = f"Line chart: STS {METRIC_NAMES[metric]} for each number of {label}"
        with panel(f"{stem}-{metric}", text, title=f"STS {METRIC_NAMES[metric]}", into=panels) as axes:
            for line, members in lines.items():
                scored = {layers[name]: results.score(name, metric) for name in members}
                points = sorted((number, score) for number, score in scored.items() if score is not None)
                axes.plot([number for number, _ in points], [score for _, score in points], marker="o", label=line)
            axes.set_xticks(sorted(set(layers.values())))
            axes.set(xlabel=label, ylabel="Spearman × 100")
            add_legend(axes)
    return panels


def draw_objectives(names: list[str], results: Results) -> list[Panel]:
    """Dev score during stage 4, a line for each objective: one panel for the mean, one a language pair (Fig. 3)."""
    panels: list[Panel] = []
    curves = {name: lines for name in names if (lines := results.cells[name].dev_scores("contrastive"))}
    if not curves:
        return panels
    whole_epochs = all(lines[-1]["epoch"] >= 1 for lines in curves.values())
    place = "epoch" if whole_epochs else "pairs"  # no run completed an epoch: count pairs
    pairs = list(next(iter(curves.values()))[0].get("by_pair", {}))
    common = [p for p in pairs if all(p in line.get("by_pair", {}) for lines in curves.values() for line in lines)]
    for pair in (None, *common):
        title = "Dev score during stage 4" + ("" if pair is None else f", {pair.upper()}")
        text = f"Line chart: {title}, by {place}, one line for each objective"
        stem = "objectives" if pair is None else f"objectives-{pair}"
        with panel(stem, text, title=title, into=panels) as axes:
            for name, lines in curves.items():
                scores = [line["score"] if pair is None else line["by_pair"][pair] for line in lines]
                is_soft = results.cells[name].cell.config.contrastive.objective == "soft"
                label = f"{name} (soft labels)" if is_soft else name
                axes.plot([line[place] for line in lines], scores, marker="o", label=label)
            axes.set(xlabel="epoch", ylabel="Spearman × 100")
            if not whole_epochs:
                count_pairs(axes)
            add_legend(axes)
    return panels


def draw_losses(names: list[str], results: Results) -> list[Panel]:
    """Every part of every stage's loss during training; shared steps are drawn once."""
    panels: list[Panel] = []
    for stage in ("assistant", "bottleneck", "student", "contrastive"):
        by_folder: dict[Path, Result] = {}
        for name in names:
            if results.cells[name].log(stage):
                by_folder.setdefault(results.cells[name].trial.folders[stage], results.cells[name])
        drawn = list(by_folder.values())
        if not drawn:
            continue
        text = f"Line chart: loss of stage {stage} against pairs seen"
        with panel(f"loss-{stage}", text, title=f"Loss of stage “{stage}”", into=panels) as axes:
            values: list[float] = []
            for colour, result in zip(COLOURS, drawn, strict=False):
                lines = result.log(stage)
                losses = [part for part in lines[0] if part not in NO_LOSSES]
                for dash, part in zip(DASHES, losses, strict=False):
                    label = part if len(drawn) == 1 else f"{result.cell.name}: {part}"
                    curve = [line[part] for line in lines]
                    axes.plot([line["pairs"] for line in lines], curve, dash, color=colour, label=label)
                    values += curve
            is_wide = 0 < 10 * min(values) < max(values)
            axes.set(ylabel="loss", yscale="log" if is_wide else "linear")
            count_pairs(axes)
            add_legend(axes)
    return panels


def draw_map(name: str, points_SL2: NDArray[np.float32], languages: Sequence[str], *, title: str) -> Panel:
    """A scatter plot of sentences by language; lines join them to their translations in the first language."""
    panels: list[Panel] = []
    text = f"{title}: scatter plot of sentences coloured by language, lines join translations"
    with panel(name, text, title=title, into=panels) as axes:
        for column in range(1, len(languages)):
            ends = points_SL2[:, [0, column]]
            axes.plot(ends[..., 0].T, ends[..., 1].T, color=INK, alpha=0.13, linewidth=0.6, zorder=1)
        for column, language in enumerate(languages):
            x_S, y_S = points_SL2[:, column].T
            axes.scatter(x_S, y_S, s=16, label=language, zorder=2, color=COLOURS[column % len(COLOURS)])
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), handletextpad=0.1)
    return panels[0]
