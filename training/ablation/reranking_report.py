"""The report of the re-ranking study, in the shape of the paper's tables: Chen et al. 2020."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev

from training.ablation.document import Block, Heading, Paragraph, Table
from training.ablation.findings import Verdict
from training.ablation.report import short
from training.ablation.reranking_study import StudyCell, StudyScores, StudySpec, mono_positives_pair, seeds_of
from training.reranking.job import BI_ENCODER, BM25, RERANKER
from training.reranking.ranking import MIXED

CITATION = (
    "Chen et al., Cross-Lingual Passage Re-Ranking With Alignment Augmented Multilingual BERT, IEEE Access 8, 2020"
)
METRICS = ("acc@1", "acc@10", "mrr", "map")
INSURANCE_QA = {  # cell -> METRICS
    "merged": (25.29, 52.18, 34.57, 28.81),
    "cascade": (25.42, 53.85, 35.22, 29.43),
    "mixed": (26.95, 64.92, 39.51, 34.55),
    "XPI + merged": (26.83, 59.14, 37.72, 32.14),
    "XPI + cascade": (24.49, 56.80, 35.34, 29.91),
    "XPI + mixed": (28.43, 67.38, 40.86, 36.10),
}
ZERO_SHOT = {  # set -> cell -> acc@1, acc@10, MRR
    "bipar": {"mixed": (15.13, 39.50, 23.41), "XPI + mixed": (17.07, 42.73, 25.95)},
    "mlqa": {"mixed": (29.96, 58.93, 39.48), "XPI + mixed": (33.33, 64.68, 43.04)},
    "xquad": {"mixed": (47.9, 83.19, 59.81), "XPI + mixed": (56.64, 88.40, 67.80)},
}


def zero_shot_of(label: str) -> dict[str, tuple[float, float, float]] | None:
    """The paper's rows for a measured set such as `bipar_test`."""
    return next((rows for name, rows in ZERO_SHOT.items() if label.startswith(name)), None)


Trained = list[dict[str, StudyScores]]  # for each seed the scores of its finished cells
NOTHING = "–"
BEFORE_AND_AFTER = ("mixed", "XPI + mixed")
BASELINES = {BI_ENCODER: "bi-encoder alone", BM25: "BM25"}
ALL_METRICS = {"acc@1": "acc@1", "acc@10": "acc@10", "mrr": "MRR", "map": "MAP", "ndcg@10": "nDCG@10"}
FINDINGS = {  # claim -> its better and its worse cells
    "mixed is the best strategy": (("mixed", "merged"), ("mixed", "cascade")),
    "with XPI, mixed is the best strategy": (("XPI + mixed", "XPI + merged"), ("XPI + mixed", "XPI + cascade")),
    "XPI helps mixed": (("XPI + mixed", "mixed"),),
    "XPI hurts cascade": (("cascade", "XPI + cascade"),),  # on acc@1 in the paper
}
SEVERAL_SEEDS = (
    "Mean over seeds, in brackets the smallest and the largest; "
    "differences whose sign varies between seeds count as noise."
)
PARAPHRASES = "XPI + mixed: with paraphrases against without"
PARAPHRASE_VERDICTS = {
    Verdict.CONFIRMED: "better with",
    Verdict.NOT_CONFIRMED: "better without",
    Verdict.WITHIN_NOISE: str(Verdict.WITHIN_NOISE),
    Verdict.NOT_RUN: str(Verdict.NOT_RUN),
}


@dataclass(frozen=True)
class StudyReport:
    """What a report is made of. `command`: the one that made it."""

    spec: StudySpec
    cells: list[StudyCell]
    command: str

    def blocks(self) -> Iterator[Block]:
        """The report's blocks, in order."""
        trained, names = self._trained(), list(dict.fromkeys(cell.name for cell in self.cells))
        yield self._introduction()
        yield Heading("What holds of the paper's findings")
        yield findings_table(trained, margin=self.spec.margin, mono_positives=mono_positives_pair(self.spec))
        yield Heading("Strategies, with XPI and without")
        yield strategies_table(names, trained)
        yield Heading("Zero-shot: mixed, then XPI + mixed")
        yield zero_shot_table(trained)
        for label in _labels(trained):
            yield Heading(f"On {label}")
            yield set_table(label, names, trained)
        yield Paragraph(self._made_by())

    def _trained(self) -> Trained:
        trained: dict[int, dict[str, StudyScores]] = {seed: {} for seed in seeds_of(self.spec)}
        for cell in self.cells:
            if (scores := cell.scores()) is not None:
                trained[cell.run.config.seed][cell.name] = scores
        return list(trained.values())

    def _introduction(self) -> Paragraph:
        run, seeds = self.spec.run, seeds_of(self.spec)
        sources = ", ".join(source.label for source in run.train)
        done = sum(cell.is_done for cell in self.cells)
        over_seeds = (
            f" Scores are means over the seeds {', '.join(map(str, seeds))}, ± the standard deviation; "
            f"{done} of {len(self.cells)} trainings are done."
        )
        return Paragraph(
            f"Re-rankers on {run.base} in {' and '.join(run.languages)}, trained on {sources}. Test sets are mixed by "
            "language, and every passage of a set is a candidate. Metrics are x 100, over the whole list. "
            f"The paper's figures: {CITATION}; its models are mBERT trained on InsuranceQA. Compare the direction of "
            f"differences, not scores.{over_seeds if len(seeds) > 1 else ''}"
        )

    def _made_by(self) -> str:
        records = {file: record for cell in self.cells for file, record in cell.records().items()}
        if not records:
            return f"`{self.command}`; nothing trained yet."
        commits = ", ".join(f"`{one}`" for one in sorted({short(row["git_commit"]) for row in records.values()}))
        hardware = "; ".join(sorted({row["hardware"] for row in records.values()}))
        minutes = sum(row["last_run_s"] for row in records.values()) / 60
        pairs = sorted({cell.pairs() for cell in self.cells if cell.is_done})
        seen = " or ".join(f"{count:,}" for count in pairs) or "no"
        return (
            f"`{self.command}`, commit {commits}; {hardware}; {seen} pairs of question and passage a cell; "
            f"{minutes:.0f} minutes for all steps."
        )


def findings_table(trained: Trained, *, margin: float, mono_positives: tuple[str, str] | None = None) -> Table:
    """Each claim with the smallest difference in mean MRR that it rests on, in the paper and here.

    Args: mono_positives: the cell with paraphrases and the one without, where both are trained; not in the paper.
    """
    metric = {"XPI hurts cascade": "acc@1"}
    rows = []
    for claim, pairs in FINDINGS.items():
        by = metric.get(claim, "mrr")
        published = {name: row[METRICS.index(by)] for name, row in INSURANCE_QA.items()}
        paper = min(published[one] - published[other] for one, other in pairs)
        ours = differences(trained, pairs, by)
        rows.append([claim, ALL_METRICS[by], f"{paper:+.2f}", _signed(ours), verdict(ours, margin)])
    if mono_positives is not None:
        ours = differences(trained, (mono_positives,), "mrr")
        rows.append(
            [PARAPHRASES, ALL_METRICS["mrr"], NOTHING, _signed(ours), PARAPHRASE_VERDICTS[verdict(ours, margin)]]
        )
    note = f"Mean over the sets; differences of up to {margin:g} points count as noise. "
    note += "One training each." if len(trained) == 1 else SEVERAL_SEEDS
    return Table(["finding", "metric", "paper", "here", ""], rows, note)


def differences(trained: Trained, pairs: tuple[tuple[str, str], ...], metric: str) -> list[float]:
    """The smallest difference of the better and the worse cells, of each seed that has them all."""
    found = []
    for scores in trained:
        means = [(_mean(scores, one, metric), _mean(scores, other, metric)) for one, other in pairs]
        there = [one - other for one, other in means if one is not None and other is not None]
        if len(there) == len(pairs):
            found.append(min(there))
    return found


def verdict(found: list[float], margin: float) -> Verdict:
    """Of a claimed difference, in points, by its mean over seeds; seeds that disagree on its sign decide nothing."""
    if not found:
        return Verdict.NOT_RUN
    difference = fmean(found)
    if abs(difference) <= margin or min(found) < 0 < max(found):
        return Verdict.WITHIN_NOISE
    return Verdict.CONFIRMED if difference > 0 else Verdict.NOT_CONFIRMED


def strategies_table(names: list[str], trained: Trained) -> Table:
    """The paper's table of six cells on InsuranceQA, beside the mean over our sets; no figure for other cells."""
    header = ["trained", *(f"{ALL_METRICS[metric]}, here" for metric in METRICS)]
    header += [f"{ALL_METRICS[metric]}, InsuranceQA, paper" for metric in METRICS]
    rows = [
        [
            name,
            *(_over_seeds([_mean(scores, name, metric) for scores in trained]) for metric in METRICS),
            *map(_plain, INSURANCE_QA.get(name, [None] * len(METRICS))),
        ]
        for name in names
    ]
    return Table(header, rows, "Here: mean over the sets measured.")


def zero_shot_table(trained: Trained) -> Table:
    """Each set's acc@1, acc@10 and MRR before and after XPI, beside the paper's."""
    header = ["set", *(f"{ALL_METRICS[metric]}{where}" for metric in METRICS[:3] for where in (", here", ", paper"))]
    rows = []
    for label in _labels(trained):
        published = zero_shot_of(label) or {}
        row = [label]
        for column, metric in enumerate(METRICS[:3]):
            here = [_score_over_seeds(trained, name, label, metric) for name in BEFORE_AND_AFTER]
            paper = [published[name][column] if name in published else None for name in BEFORE_AND_AFTER]
            row += [" → ".join(here), " → ".join(map(_plain, paper))]
        rows.append(row)
    return Table(header, rows)


def set_table(label: str, names: list[str], trained: Trained) -> Table:
    """All metrics of the cells and the baselines on one mixed set."""
    rows = [[name, *(_score_over_seeds(trained, name, label, metric) for metric in ALL_METRICS)] for name in names]
    cells = [found[label] for scores in trained for found in scores.values() if label in found]
    for scorer, title in BASELINES.items():
        baseline = next((cell[scorer] for cell in cells if scorer in cell), None)  # the same in all cells
        if baseline is not None:
            rows.append([title, *(_plain(baseline[metric].get(MIXED)) for metric in ALL_METRICS)])
    return Table(["", *ALL_METRICS.values()], rows)


def _labels(trained: Trained) -> list[str]:
    return sorted({label for scores in trained for found in scores.values() for label in found})


def _score(scores: dict[str, StudyScores], name: str, label: str, metric: str) -> float | None:
    by_set = scores.get(name, {})
    return by_set[label][RERANKER][metric].get(MIXED) if label in by_set else None


def _mean(scores: dict[str, StudyScores], name: str, metric: str) -> float | None:
    found = [_score(scores, name, label, metric) for label in scores.get(name, {})]
    there = [score for score in found if score is not None]
    return fmean(there) if there else None


def _score_over_seeds(trained: Trained, name: str, label: str, metric: str) -> str:
    return _over_seeds([_score(scores, name, label, metric) for scores in trained])


def _over_seeds(scores: list[float | None]) -> str:
    """Mean ± standard deviation; of one seed its score."""
    there = [score for score in scores if score is not None]
    if len(there) < 2:
        return _plain(next(iter(there), None))
    return f"{fmean(there):.2f} ± {stdev(there):.2f}"


def _plain(score: float | None) -> str:
    return NOTHING if score is None else f"{score:.2f}"


def _signed(found: list[float]) -> str:
    """The mean difference and its range over seeds."""
    if not found:
        return NOTHING
    spread = f" ({min(found):.2f} to {max(found):.2f})" if len(found) > 1 else ""
    return f"{fmean(found):+.2f}{spread}"
