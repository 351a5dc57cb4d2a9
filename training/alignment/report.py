"""Writes the report of an alignment or an adaptation: Markdown, and a plot of both languages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from training.ablation.document import Block, FigureBlock, Heading, Paragraph, Table, write_document
from training.ablation.plots import Panel, draw_map
from training.alignment.job import AFTER, Outcome, Task
from training.alignment.layers import Sides, Vectors
from training.alignment.scores import (
    MAX_LOSS,
    STS_ROWS,
    Guard,
    PairTask,
    Scores,
    ServedScores,
    listed,
    lost_beyond,
    read_probe,
)

PLOTTED = 100  # sentences a side
METRICS = ("p1_forward", "p5_forward", "p1_backward", "p5_backward")


def write_report(task: Task, outcome: Outcome, folder: Path, *, model: str) -> None:
    """Write report.md and figures/ into a folder.  model: the name of its folder."""
    note = (
        f"Served: `{AFTER}`. Means are those of the training pairs. A model does not know a text's "
        "language, so neither a mean for each language nor a map of one side can be served."
    )
    blocks = pair_report(
        task,
        outcome.before,
        outcome.after,
        model=model,
        method=f"Chosen: {outcome.chosen.name}.",
        translations=translations_table(task, outcome.rows, note),
        details=_heads(outcome),
    )
    write_document(f"Alignment of {task.pairs.label}", list(blocks), folder)


def _heads(outcome: Outcome) -> Iterator[Block]:
    yield Heading("Heads that were tried")
    rows = [["none", f"{outcome.dev_p1:.1f}", *_kept(outcome.before.guard), ""]]
    for head in outcome.candidates:
        lost = outcome.lost[head.name]
        verdict = f"loses {listed(lost)}" if lost else "less on dev"
        if head is outcome.chosen:
            verdict = outcome.refusal or "chosen"
        rows.append([head.name, f"{head.dev_p1:.1f}", *_kept(outcome.guards[head.name]), verdict])
    header = ["head", "P@1 on dev", "probe, worst language", "similarity, mean", "search, MRR", ""]
    yield Table(header, rows)
    if outcome.epochs:
        best = max(outcome.epochs, key=lambda epoch: (epoch.p1, -epoch.number))
        count = len(outcome.epochs) - 1
        yield Paragraph(f"Siamese head: best on dev, {best.p1:.1f}, after {best.number} of {count} epochs.")


def _kept(guard: Guard) -> list[str]:
    """What must stay, in three cells."""
    worst = f"{min(guard.probe.values()):.1f}" if guard.probe else ""
    similar = f"{np.mean(list(guard.sts.values())):.1f}" if guard.sts else ""
    return [worst, similar, f"{guard.search['search']:.1f}" if guard.search else ""]


def pair_report(
    task: PairTask,
    before: ServedScores,
    after: ServedScores,
    *,
    model: str,
    method: str,
    translations: Table,
    details: Iterable[Block],
) -> Iterator[Block]:
    """The blocks of a report.

    Args: model: the name of its folder.  method: a sentence on what was done.  details: blocks on how.
    """
    split, dropped, lost = task.split, task.pairs.dropped, task.lost(before.guard, after.guard)
    yield Paragraph(
        f"Model `{model}` ({task.model.name}, {task.model.revision[:12]}), pairs `{task.pairs.path.name}`: "
        f"{len(split.train):,} to train on, {len(split.dev):,} to choose with, {len(split.test):,} to measure with. "
        f"{method} Every figure is x 100."
    )
    if dropped:
        yield Paragraph("Left out: " + ", ".join(f"{count:,} {reason}" for reason, count in dropped.items()) + ".")
    if lost:
        yield Paragraph(f"{lost_beyond(lost).capitalize()}. Nothing that was tried loses less everywhere.")
    else:
        unmeasured = "" if before.guard.sts else "; similarity was not measured (`--data`)"
        limits = f"No language loses more than {MAX_LOSS} points, search no more than {task.max_search_loss:g}"
        yield Paragraph(f"{limits}{unmeasured}.")
    yield Heading("Translations found")
    yield translations
    yield Heading("Both languages on a plane")
    plots = [
        plot(name, scores.sides, task.pairs.languages) for name, scores in {"before": before, "after": after}.items()
    ]
    count = min(PLOTTED, len(before.sides[0]))
    yield FigureBlock(plots, f"The first two principal components of {count} test pairs; a line joins translations.")
    yield from details
    probe = (
        f"P@1 between a language and each other one, both ways, on {len(next(iter(read_probe().values())))} sentences "
        "that ship with the command, as served before and after."
    )
    old, new = before.guard, after.guard
    search = "MRR of the dev queries of the search set that ships with crosslet, in the model's languages."
    yield from _changes("Search", old.search, new.search, search)
    yield from _changes("Every language", old.probe, new.probe, probe)
    yield from _changes("Similarity (STS)", old.sts, new.sts, f"Spearman, {STS_ROWS} rows of each dev set.")


def translations_table(task: PairTask, rows: Mapping[str, Scores], note: str) -> Table:
    """P@1 and P@5 of the test pairs in both directions."""
    left, right = task.pairs.languages
    header = ["", *(f"P@{k} {way}" for way in (f"{left} to {right}", f"{right} to {left}") for k in (1, 5))]
    return Table(
        header, [[name, *(f"{scores[metric]:.1f}" for metric in METRICS)] for name, scores in rows.items()], note
    )


def plot(name: str, sides: Sides, languages: tuple[str, str]) -> Panel:
    """Fig. 7, Huang et al. 2023: both languages on the plane of their first two principal components."""
    chosen = [side[:PLOTTED] for side in sides]
    both = np.concatenate(chosen).astype(np.float64)
    centred = both - both.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    points = (centred @ axes[:2].T).astype(np.float32).reshape(2, len(chosen[0]), 2).transpose(1, 0, 2)
    same, others = mean_cosines(chosen[0], chosen[1])
    title = f"{name}: cosine {same:.2f} of translations, {others:.2f} of others"
    return draw_map(name, points, languages, title=title)


def mean_cosines(left_ND: Vectors, right_ND: Vectors) -> tuple[float, float]:
    """Mean cosine of translations and of other pairs, from unit vectors."""
    cosine_NN, is_own_NN = left_ND @ right_ND.T, np.eye(len(left_ND), dtype=bool)
    return float(cosine_NN[is_own_NN].mean()), float(cosine_NN[~is_own_NN].mean())


def _changes(title: str, before: Scores, after: Scores, note: str) -> Iterator[Block]:
    """A table of scores before and after; nothing without scores."""
    if before:
        yield Heading(title)
        rows = [
            [name, f"{old:.2f}", f"{after[name]:.2f}", f"{round(after[name] - old, 2):+.2f}"]
            for name, old in before.items()
        ]
        yield Table(["", "before", "after", "change"], rows, note)
