"""`crosslet align --study SPEC.yaml`: the tables of Huang et al. 2023 with a model of yours, each beside the paper's.

Heads of a study are measured and thrown away: nothing of its pairs is in a model.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from training.ablation.document import Block, Heading, Paragraph, Table, write_document
from training.alignment.candidates import Method, make_candidates, procrustes, ridge
from training.alignment.head import STRUCTURES
from training.alignment.job import pairs_of
from training.alignment.layers import Means, Vectors
from training.alignment.losses import DISTANCES, STRATEGIES, Distance
from training.alignment.pairs import DEV_SHARE, MOST_DEV, Pair, check_disjoint, read_pairs, split_pairs
from training.alignment.trainer import PAPER, Pairs, Settings, train_head
from training.alignment.vectors import Known, layer_vectors
from training.config.parsing import ConfigModel, build, read_yaml
from training.errors import ConfigError
from training.evaluation.bitext import score_bitext
from training.evaluation.encoders import LoadModel
from training.evaluation.vectors import unit_rows

TableName = Literal[
    "head", "settings", "structures", "distances", "layers", "negatives", "closed form", "sizes", "documents", "others"
]
# Table name -> row -> the paper's P@1. A row that the paper has not is not here.
PAPER_ROWS: Mapping[str, Mapping[str, float]] = {
    "head": {"before": 41.2, "siamese head": 63.1},  # Table 4; with XLM 58.0 and 70.1
    "structures": {"linear": 63.1, "tanh": 53.3, "relu": 35.5, "two-tanh": 52.9},  # Table 6, 10 rounds
    "distances": {"euclidean": 63.1, "manhattan": 59.9, "cosine": 27.5},
    "layers": {"1": 45.8, "7": 63.1, "12": 54.9, "all": 60.5, "cls": 40.2},
    "negatives": {"none": 55.1, "random": 58.6, "hardest": 63.1, "farthest": 63.1, "average": 57.3},
    "documents": {"before": 33.1, "siamese head": 37.5},
    "en-zh": {"before": 71.1, "siamese head": 73.0},  # 2,000 pairs
    "en-fr": {"before": 76.8, "siamese head": 78.5},
}
# Table name -> the finding, and the row that is best by it; None: what is compared is not one row.
FINDINGS: Mapping[str, tuple[str, str | None]] = {
    "head": ("a linear head helps", "siamese head"),
    "structures": ("one linear layer is best", "linear"),
    "distances": ("the Euclidean distance is best", "euclidean"),
    "layers": ("the seventh of twelve layers is best", "7"),
    "negatives": ("the worst negatives are best", "hardest"),
    "documents": ("the head helps documents too", "siamese head"),
    "sizes": ("the gain grows with the pairs and flattens after some 3,000", None),
    "en-zh": ("the head helps a large language a little", "siamese head"),
    "en-fr": ("the head helps a large language a little", "siamese head"),
}
logger = logging.getLogger(__name__)
LEAST = 10  # pairs of a test
WORDS = (30, 50)  # of a paragraph


class Files(ConfigModel):
    """Files of pairs, relative to --data, of these two languages."""

    train: str
    test: str
    languages: list[str]


class StudySpec(ConfigModel):
    """What a study measures.

    margins: of the distances other than the Euclidean one, which the paper does not print.  sizes: pairs to train on.
    documents: a file of paragraphs; None: sentences of the test are joined to some of 30 to 50 words.
    others: more language pairs, by the name of their table.
    """

    title: str
    model: str
    pairs: Files
    tables: list[TableName]
    seeds: list[int] = Field(default=[0])
    epochs: int = Settings.epochs
    margins: dict[str, float] = Field(default={"manhattan": 16.0, "cosine": 0.5})
    sizes: list[int] = Field(default=[250, 500, 750, 1000, 1250, 1500, 2000])
    documents: str | None = None
    others: dict[str, Files] = Field(default={})


def read_spec(path: Path) -> StudySpec:
    """Raises: ConfigError: a key is unknown or a value impossible."""
    spec = build(StudySpec, read_yaml(path), where=str(path))
    for name, files in {"pairs": spec.pairs, **spec.others}.items():
        if len(files.languages) != 2:
            raise ConfigError(f"{path}: {name}: languages are {files.languages}; a pair has two")
    if not spec.seeds or not spec.tables:
        raise ConfigError(f"{path}: a study has at least one of tables and of seeds")
    return spec


@dataclass(frozen=True)
class Measured:
    """A row: P@1 and P@5 x 100 of source to target, the mean over seeds.

    spread: of P@1 over the seeds, a standard deviation.  sentences: P@1 is a share of so many; None: not known.
    """

    name: str
    p1: float
    p5: float
    spread: float = 0.0
    sentences: int | None = None

    @property
    def error(self) -> float:
        """Standard error of P@1: of a share of so many sentences, and of the seeds."""
        share = self.p1 / 100
        sampling = 0.0 if self.sentences is None else 100 * (share * (1 - share) / self.sentences) ** 0.5
        return float(np.hypot(sampling, self.spread))


@dataclass(frozen=True)
class Data:
    """Texts and vectors of one language pair."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    known: Known

    def vectors(self) -> tuple[Pairs, Pairs, Pairs]:
        """Of train, dev and test."""
        train, dev, test = (pairs_of(part, self.known) for part in (self.train, self.dev, self.test))
        return train, dev, test


def run_study(path: Path, data: Path, out: Path, load_model: LoadModel) -> None:
    """Measure every table and write report.md.

    Raises: ConfigError: the specification is wrong.  AlignmentError: a file of pairs cannot be used.
    """
    spec = read_spec(path)
    known = Known(load_model(spec.model).encode)
    main = read_data(spec.pairs, data, known)
    blocks: list[Block] = [
        Paragraph(
            f"Model `{Path(spec.model).name}`, {'-'.join(spec.pairs.languages)}: {len(main.train):,} pairs to train "
            f"on, {len(main.dev):,} to choose an epoch with, {len(main.test):,} to measure with; seeds "
            f"{', '.join(map(str, spec.seeds))}. P@1 and P@5 x 100 of {spec.pairs.languages[0]} to "
            f"{spec.pairs.languages[1]}, each language less its own mean of the training pairs, before and after."
        )
    ]
    for name in spec.tables:
        logger.info("table %s", name)
        for title, rows in measure(name, spec, main, data):
            blocks += table_of(title, rows)
    write_document(spec.title, blocks, out)


def read_data(files: Files, data: Path, known: Known) -> Data:
    """Raises: AlignmentError: a file cannot be used, or both share sentences."""
    left, right = files.languages
    train = read_pairs(data / files.train, languages=(left, right))
    test = read_pairs(data / files.test, languages=(left, right), least=LEAST)
    check_disjoint(train, test)
    kept, dev = split_pairs(train.pairs, DEV_SHARE, most=MOST_DEV, seed=0)
    return Data(kept, dev, test.pairs, known)


def measure(name: TableName, spec: StudySpec, main: Data, data: Path) -> Iterator[tuple[str, list[Measured]]]:
    """The rows of a table, or of several."""
    if name == "others":
        for title, files in spec.others.items():
            yield title, _head_rows(spec, read_data(files, data, main.known).vectors())
        return
    if name == "layers":
        yield name, _layer_rows(spec, main)
        return
    train, dev, test = main.vectors()
    base = Settings(epochs=spec.epochs)
    if name == "head":
        yield name, _head_rows(spec, (train, dev, test))
    elif name == "documents":
        yield name, _head_rows(spec, (train, dev, pairs_of(_documents(spec, main, data), main.known)))
    elif name == "closed form":
        yield name, _closed_form(train, dev, test)
    elif name == "sizes":
        sizes = [size for size in spec.sizes if size <= len(train)]
        rows = [_measured(str(size), base, spec.seeds, (_first(train, size), dev, test)) for size in sizes]
        yield name, [_before(train, test), *rows]
    else:
        rows = [_measured(row, one, spec.seeds, (train, dev, test)) for row, one in _settings(name, base, spec)]
        yield name, [_before(train, test), *rows]


def _settings(name: TableName, base: Settings, spec: StudySpec) -> Iterator[tuple[str, Settings]]:
    """Rows of a table in which one setting varies."""
    if name == "structures":
        yield from ((structure, replace(base, structure=structure)) for structure in STRUCTURES)
        yield "linear, no bias", replace(base, bias=False)
    elif name == "distances":
        for distance in DISTANCES:
            yield distance, replace(base, distance=distance, margin=_margin(distance, spec))
    elif name == "negatives":
        yield from ((strategy, replace(base, negatives=strategy)) for strategy in STRATEGIES)
    elif name == "settings":
        paper = replace(PAPER, epochs=spec.epochs)
        yield "ours", base
        yield "the paper's rate and dropout", paper
        yield "the paper's, random start", replace(paper, start="random")
        yield "ours, random start", replace(base, start="random")
        yield "ours, vectors as they are", replace(base, inputs="raw")
        yield "ours, vectors scaled to 1 apart", replace(base, inputs="scaled")
        yield "ours, dropout 0.2", replace(base, dropout=PAPER.dropout)


def _margin(distance: Distance, spec: StudySpec) -> float:
    return spec.margins.get(distance, Settings.margin)


def _head_rows(spec: StudySpec, parts: tuple[Pairs, Pairs, Pairs]) -> list[Measured]:
    train, _, test = parts
    return [_before(train, test), _measured("siamese head", Settings(epochs=spec.epochs), spec.seeds, parts)]


def _layer_rows(spec: StudySpec, main: Data) -> list[Measured]:
    """A head for each layer, and what the layer gives before it."""
    parts = [main.train, main.dev, main.test]
    texts = [text for part in parts for side in (0, 1) for text in (pair[side] for pair in part)]
    rows = []
    for name, vectors_ND in layer_vectors(spec.model, texts).items():
        row_of = dict(zip(texts, vectors_ND, strict=True))
        lookup = Known(lambda chunk, row_of=row_of: np.stack([row_of[text] for text in chunk]))  # type: ignore[misc]
        train, dev, test = (pairs_of(part, lookup) for part in parts)
        before = _before(train, test)
        rows.append(replace(before, name=f"{name}, before"))
        rows.append(_measured(name, Settings(epochs=spec.epochs), spec.seeds, (train, dev, test)))
    return rows


def _closed_form(train: Pairs, dev: Pairs, test: Pairs) -> list[Measured]:
    sides = unit_rows(train.source_ND), unit_rows(train.target_ND)
    rows = [_before(train, test)]
    for name, fit in {"orthogonal Procrustes, one side": procrustes, "ridge, one side": ridge}.items():
        layer = fit(*sides)
        fitted = layer(sides[0]), sides[1]
        rows.append(_row(name, fitted, (layer(unit_rows(test.source_ND)), unit_rows(test.target_ND))))
    methods: tuple[Method, ...] = ("midpoint", "whitening")
    for method in methods:
        best = make_candidates(train, dev, Settings(), method)[0]
        fitted = best.mapped(train.source_ND), best.mapped(train.target_ND)
        tested = best.mapped(test.source_ND), best.mapped(test.target_ND)
        rows.append(_row(f"{method}, both sides, best on dev", fitted, tested))
    return rows


def _before(train: Pairs, test: Pairs) -> Measured:
    return _row("before", (train.source_ND, train.target_ND), (test.source_ND, test.target_ND))


def _measured(name: str, settings: Settings, seeds: Sequence[int], parts: tuple[Pairs, Pairs, Pairs]) -> Measured:
    """A head for each seed."""
    train, dev, test = parts
    rows = []
    for seed in seeds:
        head = train_head(train, dev, replace(settings, seed=seed))
        fitted = head(train.source_ND), head(train.target_ND)
        rows.append(_row(name, fitted, (head(test.source_ND), head(test.target_ND))))
    p1 = [row.p1 for row in rows]
    p5 = float(np.mean([row.p5 for row in rows]))
    return Measured(name, float(np.mean(p1)), p5, float(np.std(p1)), len(test))


def _row(name: str, fitted: tuple[Vectors, Vectors], tested: tuple[Vectors, Vectors]) -> Measured:
    scores = score_bitext(*Means.by_language(*fitted)(*tested))
    return Measured(name, scores["p1_forward"], scores["p5_forward"], sentences=len(tested[0]))


def _first(pairs: Pairs, size: int) -> Pairs:
    return Pairs(pairs.source_ND[:size], pairs.target_ND[:size], pairs.source_N[:size], pairs.target_N[:size])


def _documents(spec: StudySpec, main: Data, data: Path) -> list[Pair]:
    if spec.documents is None:
        return paragraphs(main.test)
    left, right = spec.pairs.languages
    return read_pairs(data / spec.documents, languages=(left, right), least=LEAST).pairs


def paragraphs(pairs: Sequence[Pair]) -> list[Pair]:
    """Neighbouring pairs joined until one side has 30 words between spaces; those of more than 50 are left out."""
    found, waiting = [], []
    for pair in pairs:
        waiting.append(pair)
        joined = " ".join(left for left, _ in waiting), " ".join(right for _, right in waiting)
        words = max(len(side.split()) for side in joined)
        if words >= WORDS[0]:
            found += [joined] if words <= WORDS[1] else []
            waiting = []
    return found


def table_of(title: str, rows: Sequence[Measured]) -> Iterator[Block]:
    """A table beside the paper's figures, and whether the paper's finding holds."""
    paper = PAPER_ROWS.get(title, {})
    yield Heading(title[0].upper() + title[1:])
    cells = [
        [
            row.name,
            f"{row.p1:.1f}",
            f"{row.spread:.1f}",
            f"{row.p5:.1f}",
            f"{paper[row.name]:.1f}" if row.name in paper else "",
        ]
        for row in rows
    ]
    yield Table(["", "P@1", "spread", "P@5", "paper's P@1"], cells)
    if title in FINDINGS:
        yield Paragraph(verdict(title, rows))


def verdict(title: str, rows: Sequence[Measured]) -> str:
    """One sentence: the paper's finding, and what is best here."""
    finding, expected = FINDINGS[title]
    best = max(rows, key=lambda row: row.p1)
    if expected is None:
        return f"The paper: {finding}. Here: {', '.join(f'{row.name}: {row.p1:.1f}' for row in rows)}."
    named = next((row for row in rows if row.name == expected), None)
    if named is None:
        return f"The paper: {finding}. Here {best.name} is best; there is no row {expected}."
    if best is named:
        return f"The paper: {finding}. It holds here."
    if best.p1 - named.p1 <= 2 * np.hypot(best.error, named.error):
        return f"The paper: {finding}. Here {best.name} is ahead by no more than chance."
    return f"The paper: {finding}. It does not hold here: {best.name} is {best.p1 - named.p1:.1f} points better."
