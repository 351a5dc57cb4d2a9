"""The report of the re-ranking study, in the shape of the paper's tables: Chen et al. 2020."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev

from training.ablation.document import NOTHING, Block, Heading, Paragraph, Table, number, provenance
from training.ablation.findings import Verdict
from training.ablation.reranking_study import StudyCell, StudyScores, StudySpec, mixes, seeds_of
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
BEFORE_AND_AFTER = ("mixed", "XPI + mixed")
BASELINES = {BI_ENCODER: "bi-encoder alone", BM25: "BM25"}
TITLES = {"acc@1": "acc@1", "acc@10": "acc@10", "mrr": "MRR", "map": "MAP", "ndcg@10": "nDCG@10"}
FINDINGS = {  # claim -> its metric, and its better and its worse cells
    "mixed is the best strategy": ("mrr", (("mixed", "merged"), ("mixed", "cascade"))),
    "with XPI, mixed is the best strategy": (
        "mrr",
        (("XPI + mixed", "XPI + merged"), ("XPI + mixed", "XPI + cascade")),
    ),
    "XPI helps mixed": ("mrr", (("XPI + mixed", "mixed"),)),
    "XPI hurts cascade": ("acc@1", (("cascade", "XPI + cascade"),)),
}
SEVERAL_SEEDS = (
    "Mean over seeds, in brackets the smallest and the largest; "
    "differences whose sign varies between seeds count as noise."
)
MIXES = "mixed: by pair, as the paper, against by question"
MIX_VERDICTS = {Verdict.CONFIRMED: "better by pair", Verdict.NOT_CONFIRMED: "better by question"}


@dataclass(frozen=True)
class StudyReport:
    """What a report is made of. `command`: the one that made it."""

    spec: StudySpec
    cells: list[StudyCell]
    command: str

    def blocks(self) -> Iterator[Block]:
        """The report's blocks, in order."""
        names = list(dict.fromkeys(cell.name for cell in self.cells))
        by_seed: dict[int, dict[str, StudyScores]] = {seed: {} for seed in seeds_of(self.spec)}
        for cell in self.cells:
            if (scores := cell.scores()) is not None:
                by_seed[cell.run.config.seed][cell.name] = scores
        trained = list(by_seed.values())
        yield self._introduction()
        yield Heading("What holds of the paper's findings")
        yield findings_table(trained, margin=self.spec.margin, mixes=mixes(self.spec))
        yield Heading("Strategies, with XPI and without")
        yield strategies_table(names, trained)
        yield Heading("Zero-shot: mixed, then XPI + mixed")
        yield zero_shot_table(trained)
        for label in _labels(trained):
            yield Heading(f"On {label}")
            yield set_table(label, names, trained)
        records = {file: record for cell in self.cells for file, record in cell.records().items()}
        pairs = sorted({cell.pairs() for cell in self.cells if cell.is_done})
        seen = f"{' or '.join(f'{count:,}' for count in pairs) or 'no'} pairs of question and passage a cell"
        yield Paragraph(provenance(self.command, records.values(), pairs=seen, steps="all steps"))

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
            f"Dropout is {'on' if run.xpr.dropout else 'off'}; the paper does not print its own. "
            f"The paper's figures: {CITATION}; its models are mBERT trained on InsuranceQA. Compare the direction of "
            f"differences, not scores.{over_seeds if len(seeds) > 1 else ''}"
        )


def findings_table(trained: Trained, *, margin: float, mixes: tuple[str, str]) -> Table:
    """Each claim with the smallest difference in mean score that it rests on, in the paper and here.

    Args: mixes: the cells that are mixed by pair and by question; the paper has the first alone.
    """
    rows = []
    for claim, (metric, pairs) in FINDINGS.items():
        published = {name: row[METRICS.index(metric)] for name, row in INSURANCE_QA.items()}
        paper = min(published[better] - published[worse] for better, worse in pairs)
        ours = differences(trained, pairs, metric)
        rows.append([claim, TITLES[metric], f"{paper:+.2f}", _mean_and_range(ours), verdict(ours, margin)])
    ours = differences(trained, (mixes,), "mrr")
    found = verdict(ours, margin)
    rows.append([MIXES, TITLES["mrr"], NOTHING, _mean_and_range(ours), MIX_VERDICTS.get(found, found)])
    note = f"Mean over the sets; differences of up to {margin:g} points count as noise. "
    note += "One training each." if len(trained) == 1 else SEVERAL_SEEDS
    return Table(["finding", "metric", "paper", "here", ""], rows, note)


def differences(trained: Trained, pairs: tuple[tuple[str, str], ...], metric: str) -> list[float]:
    """The smallest difference of the better and the worse cells, of each seed that has them all."""
    smallest = []
    for scores in trained:
        means = [(_mean(scores, better, metric), _mean(scores, worse, metric)) for better, worse in pairs]
        known = [better - worse for better, worse in means if better is not None and worse is not None]
        if len(known) == len(pairs):
            smallest.append(min(known))
    return smallest


def verdict(differences: list[float], margin: float) -> Verdict:
    """The verdict on a claimed difference, by its mean over seeds; seeds that disagree on its sign decide nothing."""
    if not differences:
        return Verdict.NOT_RUN
    difference = fmean(differences)
    if abs(difference) <= margin or min(differences) < 0 < max(differences):
        return Verdict.WITHIN_NOISE
    return Verdict.CONFIRMED if difference > 0 else Verdict.NOT_CONFIRMED


def strategies_table(names: list[str], trained: Trained) -> Table:
    """The paper's table of six cells on InsuranceQA, beside the mean over our sets."""
    header = ["trained", *(f"{TITLES[metric]}, here" for metric in METRICS)]
    header += [f"{TITLES[metric]}, InsuranceQA, paper" for metric in METRICS]
    rows = [
        [
            name,
            *(_over_seeds([_mean(scores, name, metric) for scores in trained]) for metric in METRICS),
            *(number(score, decimals=2) for score in INSURANCE_QA.get(name.partition(", ")[0], [None] * len(METRICS))),
        ]
        for name in names
    ]
    return Table(header, rows, "Here: mean over the sets measured.")


def zero_shot_table(trained: Trained) -> Table:
    """Each set's acc@1, acc@10 and MRR before and after XPI, beside the paper's."""
    header = ["set", *(f"{TITLES[metric]}{where}" for metric in METRICS[:3] for where in (", here", ", paper"))]
    rows = []
    for label in _labels(trained):
        published = zero_shot_of(label) or {}
        row = [label]
        for column, metric in enumerate(METRICS[:3]):
            here = [_score_over_seeds(trained, name, label, metric) for name in BEFORE_AND_AFTER]
            paper = [published[name][column] if name in published else None for name in BEFORE_AND_AFTER]
            row += [" → ".join(here), " → ".join(number(score, decimals=2) for score in paper)]
        rows.append(row)
    return Table(header, rows)


def set_table(label: str, names: list[str], trained: Trained) -> Table:
    """All metrics of the cells and the baselines on one mixed set."""
    rows = [[name, *(_score_over_seeds(trained, name, label, metric) for metric in TITLES)] for name in names]
    cells = [sets[label] for scores in trained for sets in scores.values() if label in sets]
    for scorer, title in BASELINES.items():
        baseline = next((cell[scorer] for cell in cells if scorer in cell), None)  # the same in all cells
        if baseline is not None:
            rows.append([title, *(number(baseline[metric].get(MIXED), decimals=2) for metric in TITLES)])
    return Table(["", *TITLES.values()], rows)


def _labels(trained: Trained) -> list[str]:
    return sorted({label for scores in trained for sets in scores.values() for label in sets})


def _score(scores: dict[str, StudyScores], name: str, label: str, metric: str) -> float | None:
    sets = scores.get(name, {})
    return sets[label][RERANKER][metric].get(MIXED) if label in sets else None


def _mean(scores: dict[str, StudyScores], name: str, metric: str) -> float | None:
    by_set = [_score(scores, name, label, metric) for label in scores.get(name, {})]
    known = [score for score in by_set if score is not None]
    return fmean(known) if known else None


def _score_over_seeds(trained: Trained, name: str, label: str, metric: str) -> str:
    return _over_seeds([_score(scores, name, label, metric) for scores in trained])


def _over_seeds(scores: list[float | None]) -> str:
    """Mean ± standard deviation; for one seed its score."""
    known = [score for score in scores if score is not None]
    if len(known) < 2:
        return number(next(iter(known), None), decimals=2)
    return f"{fmean(known):.2f} ± {stdev(known):.2f}"


def _mean_and_range(differences: list[float]) -> str:
    if not differences:
        return NOTHING
    spread = f" ({min(differences):.2f} to {max(differences):.2f})" if len(differences) > 1 else ""
    return f"{fmean(differences):+.2f}{spread}"
