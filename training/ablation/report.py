"""Composes the report: tables laid out like the paper's, and figures; each says how it was made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from training.ablation.document import NOTHING, Block, FigureBlock, Heading, Paragraph, Table, number, provenance
from training.ablation.findings import Verdict, compare, judge, measure_noise
from training.ablation.paper import CITATION, MODELS, PAIRS, published_row
from training.ablation.plots import Panel, draw_depth, draw_layers, draw_losses, draw_objectives
from training.ablation.results import Result, Results, SetScores, is_on_sts2017, scores_of_metric
from training.ablation.spec import AblationSpec, Metric
from training.models.encoder import ParameterCounts

METRICS: tuple[Metric, ...] = ("mono", "cross", "tatoeba")
FIGURES: tuple[tuple[str, Callable[[list[str], Results], list[Panel]], str, str], ...] = (
    (
        "layers",
        draw_layers,
        "Score of plain distillation against the number of layers",
        "As Fig. 1 of the paper: one stage, eq. (2) alone, no bottleneck, no recurrence. ",
    ),
    (
        "depth",
        draw_depth,
        "Score against the number of layers stored",
        "The stored layers, applied repeatedly and once. ",
    ),
    (
        "objectives",
        draw_objectives,
        "Score during stage 4, by objective",
        "As Fig. 3 of the paper: the mean, then each language pair. An epoch: all pairs of the stage’s sources. ",
    ),
    ("losses", draw_losses, "Losses", ""),
)
VERDICTS_NOTE = (
    "Confirmed: every difference is as claimed and exceeds its margin. Not confirmed: one contradicts the claim by "
    "more than its margin. Within noise: neither."
)


def verdicts_table(spec: AblationSpec, results: Results) -> Table:
    """Each claim with its verdict."""
    rows: list[list[str]] = []
    for claim, finding in spec.findings.items():
        comparisons = compare(finding, results, floor=spec.margin)
        confirmed = sum(each.verdict is Verdict.CONFIRMED for each in comparisons)
        rows.append([claim, f"{confirmed} of {len(comparisons)}", judge(comparisons)])
    return Table(["claim of the paper", "differences as claimed", "verdict"], rows, VERDICTS_NOTE)


def differences_table(spec: AblationSpec, results: Results) -> Table:
    """The differences behind each verdict."""
    rows: list[list[str]] = []
    parts = {}
    for claim, finding in spec.findings.items():
        parts[len(rows)] = claim
        for each in compare(finding, results, floor=spec.margin):
            name, margin = f"{each.better} above {each.worse}", f"± {each.margin:.1f}"
            rows.append([name, each.metric, signed(each.difference), margin, each.verdict])
    return Table(["", "metric", "difference", "margin", ""], rows, margin_note(spec, results), parts)


def margin_note(spec: AblationSpec, results: Results) -> str:
    """Explains how margins are measured, and what they do not cover."""
    noises = {metric: measure_noise(results, metric, floor=spec.margin) for metric in METRICS}
    measured = [f"{metric} {noise.deviation:.2f}" for metric, noise in noises.items() if noise.freedom]
    if measured:
        freedom = max(noise.freedom for noise in noises.values())
        margin = (
            f"Standard deviation between seeds, in points: {', '.join(measured)} ({freedom} degrees of freedom). "
            f"A margin is half the width of Student’s 95% interval of the difference, and at least {spec.margin:g}."
        )
    else:
        margin = f"No cell was trained with several seeds: the margin of {spec.margin:g} was chosen, not measured."
    return f"{margin} It covers the seed of the training that was repeated, not the choice of test sentences."


def variants_table(names: list[str], results: Results) -> Table:
    """Averages of some cells and their differences to the first, beside the paper's."""
    header = ["", "mono", "cross", "Δ cross", "Tatoeba"]
    published = sum(published_row(name) is not None for name in names) > 1  # a single row has no difference
    rows = []
    for name in names:
        gap = difference(results.score(name, "cross"), results.score(names[0], "cross"))
        row = [name, _score(name, "mono", results), _score(name, "cross", results), signed(gap)]
        row.append(_score(name, "tatoeba", results))
        rows.append(row + (_published(name, names[0]) if published else []))
    return Table(header + (["paper: mono", "cross", "Δ cross"] if published else []), rows)


def _score(name: str, metric: Metric, results: Results) -> str:
    """A cell's score, and the number of trainings if it averages several."""
    values = results.values(name, metric)
    return number(results.score(name, metric)) + (f" ({len(values)}×)" if len(values) > 1 else "")


def _published(name: str, reference: str) -> list[str]:
    theirs, base = published_row(name), published_row(reference)
    if theirs is None:
        return [NOTHING] * 3
    return [number(theirs.mono), number(theirs.cross), signed(difference(theirs.cross, base.cross if base else None))]


def pairs_table(names: list[str], results: Results) -> Table:
    """Cross-lingual scores of some cells by language pair, each followed by the paper's if known."""
    ours = {name: scores_of_metric(results.cells[name].scores, "cross") for name in names}
    own = {pair for scores in ours.values() for pair in scores} - {"average"}
    theirs = {name: row.pairs for name in names if (row := published_row(name)) is not None and row.pairs}
    pairs = [pair for pair in PAIRS if pair in own or theirs] + sorted(own - set(PAIRS))
    rows = []
    for name, scores in ours.items():
        rows.append([name, *(number(scores.get(pair)) for pair in pairs)])
        if name in theirs:
            published = dict(zip(PAIRS, theirs[name], strict=True))
            rows.append(["the paper’s", *(number(published.get(pair)) for pair in pairs)])
    return Table(["across languages", *(pair.upper() for pair in pairs)], rows, "One training each.")


def models_table(results: Results) -> Table:
    """Every model by language pair and size: ours, then the paper's main table."""
    models = list(_scored_models(results))
    ours = {pair for _, scores, _ in models for pair in scores_of_metric(scores, "cross")} - {"average"}
    pairs = [*PAIRS, *sorted(ours - set(PAIRS))]
    rows = []
    for name, scores, size in models:
        mono, cross = scores_of_metric(scores, "mono"), scores_of_metric(scores, "cross")
        by_pair = [number(cross.get(pair)) for pair in pairs]
        sizes = f"{size.embedding / 1e6:.2f}M + {size.layers / 1e6:.2f}M" if size else NOTHING
        rows.append([name, number(mono.get("average")), number(cross.get("average")), *by_pair, sizes])
    parts = {0: "ours", len(rows): "the paper’s, on STS2017; mono: AR, ES, EN"}
    for name, model in MODELS.items():
        published = dict(zip(PAIRS, model.pairs, strict=True))
        by_pair = [number(published.get(pair)) for pair in pairs]
        sizes = f"{model.embedding_millions:.2f}M + {model.encoder_millions:.2f}M"
        rows.append([name, number(model.mono), number(model.cross), *by_pair, sizes])
    header = ["", "mono", "cross", *(pair.upper() for pair in pairs), "embedding + encoder"]
    return Table(header, rows, "One training each.", parts)


def _scored_models(results: Results) -> Iterator[tuple[str, SetScores, ParameterCounts | None]]:
    """Name, scores and size of every start and assistant, each once, then of every cell."""
    for step, name in (("start", "before any stage"), ("assistant", "assistant, after stage 1")):
        found: dict[Path, Result] = {}
        for result in results.cells.values():
            if result.scores_of(step) is not None:
                found.setdefault(result.trial.folders[step], result)
        for result in found.values():
            config, scores = result.cell.config, result.scores_of(step) or {}
            base, teacher = (
                (each or "").rpartition("/")[2] for each in (config.base or config.teacher, config.teacher)
            )
            taught = f" ← {teacher}" if step == "assistant" else ""
            yield name if len(found) == 1 else f"{base}{taught}, {name}", scores, result.parameters_of(step)
    for name, result in results.cells.items():
        if result.scores is not None:
            yield name, result.scores, result.parameters


def cells_table(results: Results) -> Table:
    """Each cell's configuration, its contrastive loss, and its cost without steps shared with cells above."""
    header = ["", "stages", "objective", "eq. (5)", "B", "M × K", "pairs: assistant", "student", "own seconds"]
    rows = []
    counted: set[Path] = set()
    for name, result in results.cells.items():
        config, student = result.cell.config, result.cell.config.student
        own = {folder: record for folder, record in result.records().items() if folder not in counted}
        counted |= own.keys()
        row = [name, ", ".join(config.stages) or NOTHING]
        row.append(config.contrastive.objective if "contrastive" in config.stages else NOTHING)
        row.append(number(result.contrastive_loss, decimals=5))
        row.append("full table" if student.bottleneck_size is None else str(student.bottleneck_size))
        row.append(f"{student.unit_layers} × {student.recurrences}")
        row += [f"{result.pairs_seen.get('assistant', 0):,}", f"{result.student_pairs:,}"]
        row.append(f"{sum(record['last_run_s'] for record in own.values()):,.0f}")
        rows.append(row)
    return Table(header, rows)


def difference(value: float | None, reference: float | None) -> float | None:
    """How far a score is above another; None if one is missing."""
    return None if value is None or reference is None else value - reference


def signed(value: float | None) -> str:
    """One decimal, with its sign."""
    return NOTHING if value is None else f"{value:+.1f}".replace("-", "−")


@dataclass(frozen=True)
class Report:
    """The inputs of a report. `command`: the command that made it; `failures`: folder name -> reason."""

    spec: AblationSpec
    results: Results
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
        for name, draw, heading, caption in FIGURES:
            names = getattr(self.spec.figures, name)
            if panels := draw(names, self.results):
                yield Heading(heading)
                yield FigureBlock(panels, f"{caption}{self._made_by(names)}")
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

    def _signed(self, table: Table, names: list[str]) -> Table:
        """Add to a table a note of how its cells were made."""
        return dataclasses.replace(table, note=f"{table.note} {self._made_by(names)}".strip())

    def _made_by(self, names: list[str]) -> str:
        """Command, commit, hardware, pairs and time of the cells in a table or figure."""
        results = [result for name in names for result in (self.results.cells[name], *self.results.repeats[name])]
        records = {folder: record for result in results for folder, record in result.records().items()}
        seen = f"pairs seen by a student: {pairs_seen(results)}"
        return provenance(self.command, records.values(), pairs=seen, steps="all steps of these cells")


def pairs_seen(results: list[Result]) -> str:
    """The number of pairs a student trained on, or its range over the results."""
    pairs = sorted({result.student_pairs for result in results if result.scores is not None})
    if not pairs:
        return NOTHING
    return f"{pairs[0]:,}" if len(pairs) == 1 else f"{pairs[0]:,} to {pairs[-1]:,}"
