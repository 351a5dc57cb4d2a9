"""Writes what an alignment did: Markdown, and the plot of both languages. Knows figures; measures nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from training.ablation.document import Block, FigureBlock, Heading, Paragraph, Table, write_document
from training.ablation.plots import Panel, SentenceMap, draw_map, mean_cosines
from training.alignment.job import Outcome, Sides, Task, changes
from training.alignment.pairs import PairFile
from training.alignment.probe import MAX_LOSS, ProbeScores, read_probe

PLOTTED = 100  # sentences a side
STS_NOTE = "Spearman, 300 rows of each dev set."
SCORES = ("p1_forward", "p5_forward", "p1_backward", "p5_backward")


def write_report(task: Task, outcome: Outcome, folder: Path, *, model: str) -> None:
    """Write report.md and figures/ into a folder."""
    write_document(f"Alignment of {task.pairs.label}", list(blocks(task, outcome, model=model)), folder)


def blocks(task: Task, outcome: Outcome, *, model: str) -> Iterator[Block]:
    """The report's parts, in order."""
    left, right = task.pairs.languages
    split = outcome.split
    yield Paragraph(
        f"Model `{model}` ({task.model.name}, {task.model.revision[:12]}), pairs `{task.pairs.path.name}`: "
        f"{len(split.train):,} to train on, {len(split.dev):,} to choose with, {len(split.test):,} to measure with. "
        f"Chosen: {outcome.chosen.name}. Every figure is x 100."
    )
    yield from left_out(task.pairs)
    yield verdict(outcome.lost)
    yield Heading("Translations found")
    header = ["", *(f"P@{k} {way}" for way in (f"{left} to {right}", f"{right} to {left}") for k in (1, 5))]
    rows = [[name, *(f"{scores[key]:.1f}" for key in SCORES)] for name, scores in outcome.scores.items()]
    note = (
        "Served: `after: less one mean`. Means are those of the training pairs. A model does not know a text's "
        "language, so neither a mean for each language nor a map of one side can be served."
    )
    yield Table(header, rows, note)
    yield Heading("Both languages on a plane")
    yield planes(outcome.before, outcome.after, task.pairs.languages)
    yield Heading("Heads that were tried")
    tried = [[one.name, f"{one.dev_p1:.1f}", "chosen" * (one is outcome.chosen)] for one in outcome.candidates]
    yield Table(["head", "P@1 on dev", ""], tried)
    if outcome.epochs:
        best = max(outcome.epochs, key=lambda epoch: (epoch.p1, -epoch.number))
        yield Paragraph(f"Siamese head: {len(outcome.epochs)} epochs, best on dev {best.p1:.1f} after {best.number}.")
    yield from changes_table("Every language", outcome.probe, probe_note())
    yield from changes_table("Similarity (STS)", outcome.sts, STS_NOTE)


def planes(before: Sides, after: Sides, languages: tuple[str, str]) -> FigureBlock:
    """Both languages before and after, side by side."""
    count = min(PLOTTED, len(before[0]))
    caption = f"The first two principal components of {count} test pairs; a line joins translations."
    return FigureBlock([plot("before", before, languages), plot("after", after, languages)], caption)


def plot(name: str, sides: Sides, languages: tuple[str, str]) -> Panel:
    """Fig. 7, Huang et al. 2023: both languages on the plane of their first two principal components."""
    chosen = [side[:PLOTTED] for side in sides]
    both = np.concatenate(chosen).astype(np.float64)
    centred = both - both.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    points = (centred @ axes[:2].T).astype(np.float32).reshape(2, len(chosen[0]), 2).transpose(1, 0, 2)
    same, others = mean_cosines(np.stack(chosen))
    title = f"{name}: cosine {same:.2f} of translations, {others:.2f} of others"
    return draw_map(name, SentenceMap(list(languages), points, same, others), title=title)


def verdict(lost: ProbeScores) -> Paragraph:
    """Whether a language is harmed."""
    if not lost:
        return Paragraph(f"No language loses more than {MAX_LOSS} points.")
    listed = ", ".join(f"{name} {points:.2f}" for name, points in lost.items())
    return Paragraph(f"Points lost beyond {MAX_LOSS}: {listed}. Nothing that was tried loses less everywhere.")


def left_out(pairs: PairFile) -> Iterator[Block]:
    """How many lines of a file were left out, and why."""
    if pairs.dropped:
        yield Paragraph("Left out: " + ", ".join(f"{count:,} {why}" for why, count in pairs.dropped.items()) + ".")


def probe_note() -> str:
    """What the probe measures."""
    count = len(next(iter(read_probe().values())))
    return (
        f"P@1 between a language and each other one, both ways, on {count} sentences that ship with the command, as "
        "served before and after."
    )


def changes_table(title: str, scores: tuple[ProbeScores, ProbeScores], note: str) -> Iterator[Block]:
    """A table of scores before and after; nothing without scores."""
    before, after = scores
    if not before:
        return
    gained = changes(before, after)
    yield Heading(title)
    rows = [[name, f"{before[name]:.2f}", f"{after[name]:.2f}", f"{gained[name]:+.2f}"] for name in before]
    yield Table(["", "before", "after", "change"], rows, note)
