"""Composes the report; every table and figure says how it was made. All numbers come from the results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.ablation.document import Block, FigureBlock, Heading, Paragraph, Table
from training.ablation.paper import CITATION
from training.ablation.plots import draw_depth, draw_layers, draw_losses, draw_map, draw_objectives
from training.ablation.results import Result, Results, is_on_sts2017
from training.ablation.sentences import map_sentences, read_translations
from training.ablation.spec import AblationSpec
from training.ablation.tables import (
    NOTHING,
    cells_table,
    differences_table,
    models_table,
    pairs_table,
    variants_table,
    verdicts_table,
)


@dataclass(frozen=True)
class Report:
    """The inputs of a report. `command`: the command that made it; `failures`: folder name -> reason."""

    spec: AblationSpec
    results: Results
    data: Path
    command: str
    failures: dict[str, str]

    def blocks(self) -> Iterator[Block]:
        """The report's blocks, in order."""
        everything = list(self.results.cells)
        yield from self._introduction()
        if self.spec.findings:
            named = {name for finding in self.spec.findings.values() for names in finding.order for name in names}
            yield Heading("What the runs confirm")
            yield verdicts_table(self.spec, self.results)
            yield self._signed(differences_table(self.spec, self.results), [n for n in everything if n in named])
        for title, names in self.spec.tables.items():
            yield Heading(title)
            yield self._signed(variants_table(names, self.results), names)
            yield self._signed(pairs_table(names, self.results), names)
        yield Heading("Models by language pair and size")
        yield self._signed(models_table(self.results), everything)
        yield from self._figures()
        yield Heading("The cells")
        yield self._signed(cells_table(self.results), everything)

    def _introduction(self) -> Iterator[Block]:
        config = next(iter(self.results.cells.values())).cell.config
        rows = config.evaluation.sts_rows
        on_sts2017 = any(is_on_sts2017(result.scores) for result in self.results.cells.values())
        sts = "STS2017" if on_sts2017 else "the STS benchmark’s test set"
        part = "" if rows is None else f", {rows} rows of each language pair"
        yield Paragraph(
            f"Distilled from {config.teacher} for English and {', '.join(config.languages)}. Scores are Spearman’s "
            f"ρ × 100 between cosine and human judgement on {sts}{part}: within a language (mono) and "
            "against English (cross). Tatoeba is the share × 100 of sentences whose nearest neighbour is their "
            "translation, both ways."
        )
        yield Paragraph(
            f"The paper’s figures, on STS2017, are given for comparison: {CITATION}. Its teacher, base models and text "
            "may differ from yours, so compare the direction of differences, not scores."
        )
        if self.failures:
            listed = "; ".join(f"{name}: {reason}" for name, reason in self.failures.items())
            yield Paragraph(f"Cells that failed: {listed}.")

    def _figures(self) -> Iterator[Block]:
        figures = self.spec.figures
        if panels := draw_layers(figures.layers, self.results):
            yield Heading("Score of plain distillation against the number of layers")
            caption = "As Fig. 1 of the paper: one stage, eq. (2) alone, no bottleneck, no recurrence."
            yield FigureBlock(panels, f"{caption} {self._made_by(figures.layers)}")
        if panels := draw_depth(figures.depth, self.results):
            yield Heading("Score against the number of layers stored")
            caption = "The stored layers, applied repeatedly and once."
            yield FigureBlock(panels, f"{caption} {self._made_by(figures.depth)}")
        if panels := draw_objectives(figures.objectives, self.results):
            yield Heading("Score during stage 4, by objective")
            caption = (
                "As Fig. 3 of the paper: the mean, then each language pair. An epoch: all pairs of the stage’s sources."
            )
            yield FigureBlock(panels, f"{caption} {self._made_by(figures.objectives)}")
        if panels := draw_losses(figures.losses, self.results):
            yield Heading("Losses")
            yield FigureBlock(panels, self._made_by(figures.losses))
        for name in figures.map:
            yield from self._map(name, self.results.cells[name])

    def _map(self, name: str, result: Result) -> Iterator[Block]:
        texts = read_translations(self.data, result.cell.config.languages)
        before, after = result.checkpoint("start"), result.checkpoint(result.trial.result)
        if not texts or before is None or after is None:
            return
        first, last = map_sentences(before, texts), map_sentences(after, texts)
        stem = f"map-{result.cell.folder}"
        panels = [
            draw_map(f"{stem}-before", first, title="Before the first stage"),
            draw_map(f"{stem}-after", last, title="After the last stage"),
        ]
        caption = (
            f"{len(texts['en'])} sentences of STSb test in {len(texts)} languages, laid out by t-SNE on cosine "
            "distance; lines join translations to the English sentence. Mean cosine between translations "
            f"{first.translations:.2f}, then {last.translations:.2f}; between different sentences in two languages "
            f"{first.others:.2f}, then {last.others:.2f}."
        )
        yield Heading(f"Parallel sentences by language: {name}")
        yield FigureBlock(panels, f"{caption} {self._made_by([name])}")

    def _signed(self, table: Table, names: list[str]) -> Table:
        """Add to a table a note of how its cells were made."""
        return dataclasses.replace(table, note=f"{table.note} {self._made_by(names)}".strip())

    def _made_by(self, names: list[str]) -> str:
        """Command, commit, hardware, pairs and time of the cells in a table or figure."""
        results = [result for name in names for result in (self.results.cells[name], *self.results.repeats[name])]
        records = {folder: record for result in results for folder, record in result.records().items()}
        if not records:
            return f"`{self.command}`; nothing trained yet."
        commits = ", ".join(
            f"`{commit}`" for commit in sorted({short(each["git_commit"]) for each in records.values()})
        )
        hardware = "; ".join(sorted({record["hardware"] for record in records.values()}))
        minutes = sum(record["last_run_s"] for record in records.values()) / 60
        at_least = (
            "at least " if any(record["resumed"] for record in records.values()) else ""
        )  # the time before a resume is not recorded
        return (
            f"`{self.command}`, commit {commits}; {hardware}; pairs seen by a student: {pairs_seen(results)}; "
            f"{at_least}{minutes:.0f} minutes for all steps of these cells."
        )


def pairs_seen(results: list[Result]) -> str:
    """The number of pairs a student trained on, or its range over the results."""
    pairs = sorted({result.student_pairs for result in results if result.scores is not None})
    if not pairs:
        return NOTHING
    return f"{pairs[0]:,}" if len(pairs) == 1 else f"{pairs[0]:,} to {pairs[-1]:,}"


def short(commit: str) -> str:
    """An abbreviated commit, with any `-dirty`."""
    name, dash, state = commit.partition("-")
    return name[:10] + dash + state
