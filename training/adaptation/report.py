"""Writes what an adaptation did, as the report of `crosslet align` does. Knows figures; measures nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.ablation.document import Block, Heading, Paragraph, Table, write_document
from training.adaptation.job import Served, Task, Training, lost_of
from training.adaptation.start import Fertility
from training.alignment.probe import ProbeScores
from training.alignment.report import SCORES, STS_NOTE, changes_table, left_out, planes, probe_note, verdict


def write_report(task: Task, training: Training, before: Served, after: Served, folder: Path, *, model: str) -> None:
    """Write report.md and figures/ into a folder."""
    found = list(blocks(task, training, before, after, model=model))
    write_document(f"Adaptation to {task.pairs.label}", found, folder)


def blocks(task: Task, training: Training, before: Served, after: Served, *, model: str) -> Iterator[Block]:
    """The report's parts, in order."""
    left, right = task.pairs.languages
    split, settings = task.split, task.settings
    yield Paragraph(
        f"Model `{model}` ({task.model.name}, {task.model.revision[:12]}), pairs `{task.pairs.path.name}`: "
        f"{len(split.train):,} to train on, {len(split.dev):,} to choose with, {len(split.test):,} to measure with. "
        f"Trained: {settings.unfreeze}, {settings.epochs} passes; strength {training.chosen.strength:g}. "
        "Every figure is x 100."
    )
    yield from left_out(task.pairs)
    yield verdict(lost_of(before, after))
    yield Heading("Translations found")
    header = ["", *(f"P@{k} {way}" for way in (f"{left} to {right}", f"{right} to {left}") for k in (1, 5))]
    both = {"before": before, "after": after}
    rows = [[name, *(f"{served.test[key]:.1f}" for key in SCORES)] for name, served in both.items()]
    yield Table(header, rows, "As served.")
    yield Heading("Both languages on a plane")
    yield planes(before.sides, after.sides, task.pairs.languages)
    yield Heading("Strengths that were tried")
    tried = [["0 (before)", f"{training.before_p1:.1f}", "", ""]]
    tried += [
        [
            f"{one.strength:g}",
            f"{one.dev_p1:.1f}",
            _harmed(training.lost.get(one.strength)),
            "chosen" * (one is training.chosen),
        ]
        for one in training.candidates
    ]
    note = "Weights between those before (0) and after training (1), not yet exported. The probe is looked at in turn."
    yield Table(["strength", "P@1 on dev", "languages harmed", ""], tried, note)
    yield Heading("How the tokenizer cuts the pairs")
    rows = [_cut(language, found) for language, found in zip(task.pairs.languages, training.cut, strict=True)]
    note = "A word is what stands between spaces."
    if training.pieces:
        added = zip(task.pairs.languages, training.cut, training.fertility, strict=True)
        rows += [_cut(f"{language}, new pieces", found) for language, old, found in added if found != old]
        note += f" The vocabulary has {training.pieces:,} new pieces."
    yield Table(["", "pieces a word", "characters a piece", "unknown pieces"], rows, note)
    yield from changes_table("Every language", (before.probe, after.probe), probe_note())
    yield from changes_table("Similarity (STS)", (before.sts, after.sts), STS_NOTE)


def _cut(name: str, found: Fertility) -> list[str]:
    return [name, f"{found.pieces_a_word:.2f}", f"{found.characters_a_piece:.2f}", f"{100 * found.unknown:.1f} %"]


def _harmed(lost: ProbeScores | None) -> str:
    """Points lost by language; nothing where the probe was not looked at."""
    if lost is None:
        return ""
    return ", ".join(f"{name} {points:.2f}" for name, points in lost.items()) or "none"
