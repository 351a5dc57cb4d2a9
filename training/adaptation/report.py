"""Writes the report of an adaptation, in the form of an alignment's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.ablation.document import Block, Heading, Table, write_document
from training.adaptation.job import Task, Training
from training.adaptation.start import Fertility
from training.alignment.report import pair_report, translations_table
from training.alignment.scores import ServedScores, listed


def write_report(
    task: Task, training: Training, before: ServedScores, after: ServedScores, folder: Path, *, model: str
) -> None:
    """Write report.md and figures/ into a folder.  model: the name of its folder."""
    trained = (
        f"Trained: {task.settings.unfreeze}, {task.settings.epochs} passes; strength {training.chosen.strength:g}."
    )
    blocks = pair_report(
        task,
        before,
        after,
        model=model,
        method=trained,
        translations=translations_table(task, {"before": before.test, "after": after.test}, "As served."),
        details=_details(task, training),
    )
    write_document(f"Adaptation to {task.pairs.label}", list(blocks), folder)


def _details(task: Task, training: Training) -> Iterator[Block]:
    yield Heading("Strengths that were tried")
    rows = [["0 (before)", f"{training.before_p1:.1f}", "", ""]]
    for candidate in training.candidates:
        lost = training.lost.get(candidate.strength)  # None: not measured
        harmed = "" if lost is None else listed(lost) or "none"
        is_chosen = candidate is training.chosen
        rows.append([f"{candidate.strength:g}", f"{candidate.dev_p1:.1f}", harmed, "chosen" * is_chosen])
    note = "Weights between those before (0) and after training (1), not yet exported. The probe is looked at in turn."
    yield Table(["strength", "P@1 on dev", "languages harmed", ""], rows, note)
    yield Heading("How the tokenizer cuts the pairs")
    languages, note = task.pairs.languages, "A word is what stands between spaces."
    rows = [_cut(language, cut) for language, cut in zip(languages, training.cut, strict=True)]
    if training.pieces:
        cuts = zip(languages, training.cut, training.fertility, strict=True)
        rows += [_cut(f"{language}, new pieces", cut) for language, old, cut in cuts if cut != old]
        note += f" The vocabulary has {training.pieces:,} new pieces."
    yield Table(["", "pieces a word", "characters a piece", "unknown pieces"], rows, note)


def _cut(name: str, cut: Fertility) -> list[str]:
    return [name, f"{cut.pieces_a_word:.2f}", f"{cut.characters_a_piece:.2f}", f"{100 * cut.unknown:.1f} %"]
