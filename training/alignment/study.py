"""`crosslet align --study SPEC.yaml`: the tables of Huang et al. 2023 for your model, beside the paper's figures.

The heads of a study are measured and discarded; no model is written.

Shapes: N texts, D dims, B texts of a batch, L tokens, H hidden.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from training.ablation.document import Block, FigureBlock, Heading, Paragraph, Table, write_document
from training.alignment.candidates import Method, make_candidates, procrustes
from training.alignment.head import STRUCTURES
from training.alignment.job import vectors_of
from training.alignment.layers import Means, Sides, Vectors
from training.alignment.losses import DISTANCES, STRATEGIES
from training.alignment.pairs import DEV_SHARE, MOST_DEV, Pair, Split, check_disjoint, read_pairs, split_pairs
from training.alignment.report import plot
from training.alignment.trainer import PAPER, Pairs, Settings, train_head
from training.config.parsing import ConfigModel, build, read_yaml
from training.errors import AlignmentError, ConfigError
from training.evaluation.bitext import score_bitext
from training.evaluation.encoders import LoadModel
from training.evaluation.vectors import Encode, each_text_once, unit_rows
from training.models.encoder import mean_pool
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder

TableName = Literal[
    "head", "settings", "structures", "distances", "layers", "negatives", "closed form", "sizes", "documents", "others"
]
# Table -> row -> the paper's P@1, where it has the row.
PAPER_ROWS: Mapping[str, Mapping[str, float]] = {
    "head": {"before": 41.2, "siamese head": 63.1},  # Table 5, of mBERT
    "structures": {"linear": 63.1, "tanh": 53.3, "relu": 35.5, "two-tanh": 52.9},  # Table 6, 10 rounds
    "distances": {"euclidean": 63.1, "manhattan": 59.9, "cosine": 27.5},
    "layers": {"1": 45.8, "7": 63.1, "12": 54.9, "all": 60.5, "cls": 40.2},
    "negatives": {"none": 55.1, "random": 58.6, "hardest": 63.1, "farthest": 63.1, "average": 57.3},
    "documents": {"before": 33.1, "siamese head": 37.5},
    "en-zh": {"before": 71.1, "siamese head": 73.0},  # 2,000 pairs
    "en-fr": {"before": 76.8, "siamese head": 78.5},
}
PAPER_P5: Mapping[str, Mapping[str, float]] = {"head": {"before": 62.5, "siamese head": 81.7}}
# Its other encoders (Table 5), P@1 and P@5 without and with the head.
PAPER_ENCODERS = "XLM 58.0, 76.7 and 70.1, 85.7; mT5 37.8, 59.2 and 45.1, 65.2; XLM-R large 47.2, 67.8 and 54.1, 73.7"
# Table -> the paper's finding, and the row that it says is best; None: the finding is on the whole table.
FINDINGS: Mapping[str, tuple[str, str | None]] = {
    "head": ("a linear head helps", "siamese head"),
    "structures": ("one linear layer is best", "linear"),
    "distances": ("the Euclidean distance is best", "euclidean"),
    "layers": ("the seventh of twelve layers is best", "7"),
    "negatives": ("the worst negatives are best", "hardest"),
    "documents": ("the head helps documents too", "siamese head"),
    "sizes": ("the gain grows with the pairs and flattens after some 1,500 (it counts 3,000, with negatives)", None),
    "en-zh": ("the head helps a large language a little", "siamese head"),
    "en-fr": ("the head helps a large language a little", "siamese head"),
}
MIN_TEST_PAIRS = 10
PARAGRAPH_WORDS = (30, 50)
LAYER_BATCH = 32  # texts
CLOSED_FORMS: tuple[Method, ...] = ("midpoint", "whitening")
Parts = tuple[Pairs, Pairs, Pairs]  # train, dev, test
logger = logging.getLogger(__name__)


class PairFiles(ConfigModel):
    """Files of pairs in these two languages, relative to --data."""

    train: str
    test: str
    languages: list[str]


class StudySpec(ConfigModel):
    """What a study measures.

    margins: of the distances other than the Euclidean one, which the paper does not print.  sizes: pairs to train on.
    documents: a file of paragraphs; None: neighbouring test sentences are joined to 30 to 50 words.
    others: more language pairs, by the name of their table.
    """

    title: str
    model: str
    pairs: PairFiles
    tables: list[TableName]
    seeds: list[int] = Field(default=[0])
    epochs: int = Settings.epochs
    margins: dict[str, float] = Field(default={"manhattan": 16.0, "cosine": 0.5})
    sizes: list[int] = Field(default=[250, 500, 750, 1000, 1250, 1500, 2000])
    documents: str | None = None
    others: dict[str, PairFiles] = Field(default={})


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
class StudyRow:
    """P@1 and P@5 x 100 of source to target, means over the seeds.

    sentences: of the test.  spread: standard deviation of P@1 over the seeds.
    """

    name: str
    p1: float
    p5: float
    sentences: int
    spread: float = 0.0

    @property
    def error(self) -> float:
        """Standard error of P@1, from the number of sentences and from the seeds."""
        share = self.p1 / 100
        sampling = 100 * (share * (1 - share) / self.sentences) ** 0.5
        return float(np.hypot(sampling, self.spread))


def run_study(path: Path, data: Path, out: Path, load_model: LoadModel) -> None:
    """Measure every table and write report.md.

    Raises: ConfigError: the specification is wrong.  AlignmentError: a file of pairs cannot be used.
    """
    spec = read_spec(path)
    encode = each_text_once(load_model(spec.model).encode, bar="vectors")
    split = read_split(spec.pairs, data)
    left, right = spec.pairs.languages
    blocks: list[Block] = [
        Paragraph(
            f"Model `{Path(spec.model).name}`, {left}-{right}: {len(split.train):,} pairs to train "
            f"on, {len(split.dev):,} to choose an epoch with, {len(split.test):,} to measure with; seeds "
            f"{', '.join(map(str, spec.seeds))}. P@1 and P@5 x 100 of {left} to "
            f"{right}, each language less its own mean of the training pairs, before and after."
        )
    ]
    for name in spec.tables:
        logger.info("table %s", name)
        for title, rows in measure(name, spec, split, data, encode):
            blocks += table_of(title, rows)
        if name == "head":
            blocks.append(_figure(spec, _vectors(split, encode)))
    write_document(spec.title, blocks, out)


def _figure(spec: StudySpec, parts: Parts) -> FigureBlock:
    """Fig. 7: both languages on a plane, before and after."""
    train, dev, test = parts
    left, right = spec.pairs.languages
    head = train_head(train, dev, Settings(epochs=spec.epochs, seed=spec.seeds[0]))
    sides = {"before": test.sides, "after": (head(test.source_ND), head(test.target_ND))}
    plots = [plot(name, (unit_rows(pair[0]), unit_rows(pair[1])), (left, right)) for name, pair in sides.items()]
    return FigureBlock(plots, "The first two principal components of test pairs; a line joins translations.")


def read_split(files: PairFiles, data: Path) -> Split:
    """Raises: AlignmentError: a file cannot be used, or both share sentences."""
    left, right = files.languages
    train = read_pairs(data / files.train, languages=(left, right))
    test = read_pairs(data / files.test, languages=(left, right), least=MIN_TEST_PAIRS)
    check_disjoint(train, test)
    kept, dev = split_pairs(train.pairs, DEV_SHARE, most=MOST_DEV, seed=0)
    return Split(kept, dev, test.pairs)


def measure(
    name: TableName, spec: StudySpec, split: Split, data: Path, encode: Encode
) -> Iterator[tuple[str, list[StudyRow]]]:
    """The rows of a table, or of several."""
    if name == "others":
        for title, files in spec.others.items():
            yield title, _trained_rows("head", spec, _vectors(read_split(files, data), encode))
        return
    if name == "layers":
        yield name, list(_layer_rows(spec, split))
        return
    if name == "documents":
        documents = paragraphs(split.test)
        if spec.documents is not None:
            left, right = spec.pairs.languages
            documents = read_pairs(data / spec.documents, languages=(left, right), least=MIN_TEST_PAIRS).pairs
        yield name, _trained_rows("head", spec, _vectors(replace(split, test=documents), encode))
        return
    parts = train, dev, test = _vectors(split, encode)
    if name == "closed form":
        yield name, _closed_form(*parts)
    elif name == "sizes":
        rows = [
            _trained_row(str(size), Settings(epochs=spec.epochs), spec.seeds, (train.first(size), dev, test))
            for size in spec.sizes
            if size <= len(train)
        ]
        yield name, [_before(train, test), *rows]
    else:
        yield name, _trained_rows(name, spec, parts)


def _vectors(split: Split, encode: Encode) -> Parts:
    return vectors_of(split.train, encode), vectors_of(split.dev, encode), vectors_of(split.test, encode)


def _trained_rows(table: str, spec: StudySpec, parts: Parts) -> list[StudyRow]:
    """A row before training, then one for each setting of a table."""
    rows = [_trained_row(name, settings, spec.seeds, parts) for name, settings in _settings(table, spec).items()]
    return [_before(parts[0], parts[2]), *rows]


def _settings(table: str, spec: StudySpec) -> dict[str, Settings]:
    ours, paper = Settings(epochs=spec.epochs), PAPER
    margins = {distance: spec.margins.get(distance, ours.margin) for distance in DISTANCES}
    tables: dict[str, dict[str, Settings]] = {
        "head": {"siamese head": ours},
        "structures": {
            **{structure: replace(ours, structure=structure) for structure in STRUCTURES},
            "linear, no bias": replace(ours, bias=False),
        },
        "distances": {name: replace(ours, distance=name, margin=margin) for name, margin in margins.items()},
        "negatives": {strategy: replace(ours, negatives=strategy) for strategy in STRATEGIES},
        "settings": {
            "ours": ours,
            "the paper's rate, dropout and epochs": paper,
            "the paper's, random start": replace(paper, start="random"),
            "ours, random start": replace(ours, start="random"),
            "ours, vectors as they are": replace(ours, inputs="raw"),
            "ours, vectors scaled to 1 apart": replace(ours, inputs="scaled"),
            "ours, dropout 0.2": replace(ours, dropout=PAPER.dropout),
        },
    }
    return tables[table]


def _layer_rows(spec: StudySpec, split: Split) -> Iterator[StudyRow]:
    """For each layer a row before training and a row with a head."""
    texts = list(dict.fromkeys(text for part in vars(split).values() for pair in part for text in pair))
    for name, vectors_ND in layer_vectors(spec.model, texts).items():
        parts = _vectors(split, _look_up(texts, vectors_ND))
        yield replace(_before(parts[0], parts[2]), name=f"{name}, before")
        yield _trained_row(name, Settings(epochs=spec.epochs), spec.seeds, parts)


def _look_up(texts: Sequence[str], vectors_ND: Vectors) -> Encode:
    known = dict(zip(texts, vectors_ND, strict=True))
    return each_text_once(lambda new: np.stack([known[text] for text in new]))


def layer_vectors(model: str, texts: Sequence[str]) -> dict[str, Vectors]:
    """Name -> (N, H): "1" to the last layer, "all" for their mean, "cls" for the last layer's first token.

    The mean is over real tokens, [CLS] and [SEP] among them; the paper does not say.

    Raises: AlignmentError: the model's body does not give its hidden layers.
    """
    loaded = load_sentence_transformer(str(packaged_folder(model) or model), device="cpu").eval()
    parts: dict[str, list[Tensor]] = {}
    for start in range(0, len(texts), LAYER_BATCH):
        batch = loaded.tokenizer(
            list(texts[start : start + LAYER_BATCH]),
            padding=True,
            truncation=True,
            max_length=loaded.max_seq_length,
            return_tensors="pt",
        )
        with torch.inference_mode():
            output = loaded[0].auto_model(**batch, output_hidden_states=True)
        hidden = getattr(output, "hidden_states", None)
        if not hidden:
            raise AlignmentError(f"{model} does not give its hidden layers; leave layers out of the study's tables")
        means = {str(layer): mean_pool(hidden[layer], batch["attention_mask"]) for layer in range(1, len(hidden))}
        pooled = {**means, "all": torch.stack(list(means.values())).mean(dim=0), "cls": hidden[-1][:, 0]}
        for name, vectors_BH in pooled.items():
            parts.setdefault(name, []).append(vectors_BH)
    return {name: np.asarray(torch.cat(batches).float().numpy()) for name, batches in parts.items()}


def _closed_form(train: Pairs, dev: Pairs, test: Pairs) -> list[StudyRow]:
    fitted, tested = train.sides, test.sides
    rotation = procrustes(*fitted)
    sides = [(rotation(pairs[0]), pairs[1]) for pairs in (fitted, tested)]
    rows = [_before(train, test), _row("orthogonal Procrustes, one side", *sides)]
    for method in CLOSED_FORMS:
        (best, *_), _ = make_candidates(train, dev, Settings(), method)
        sides = [(best.mapped(pairs.source_ND), best.mapped(pairs.target_ND)) for pairs in (train, test)]
        rows.append(_row(f"{method}, both sides, best on dev", *sides))
    return rows


def _before(train: Pairs, test: Pairs) -> StudyRow:
    return _row("before", (train.source_ND, train.target_ND), (test.source_ND, test.target_ND))


def _trained_row(name: str, settings: Settings, seeds: Sequence[int], parts: Parts) -> StudyRow:
    """The mean over a head for each seed."""
    train, dev, test = parts
    rows = []
    for seed in seeds:
        head = train_head(train, dev, replace(settings, seed=seed))
        sides = [(head(pairs.source_ND), head(pairs.target_ND)) for pairs in (train, test)]
        rows.append(_row(name, *sides))
    p1, p5 = [row.p1 for row in rows], [row.p5 for row in rows]
    return StudyRow(name, float(np.mean(p1)), float(np.mean(p5)), len(test), float(np.std(p1)))


def _row(name: str, fitted: Sides, tested: Sides) -> StudyRow:
    scores = score_bitext(*Means.by_language(*fitted)(*tested))
    return StudyRow(name, scores["p1_forward"], scores["p5_forward"], len(tested[0]))


def paragraphs(pairs: Sequence[Pair]) -> list[Pair]:
    """Join neighbouring pairs until one side has 30 words between spaces; leave out those of more than 50."""
    joined: list[Pair] = []
    waiting: list[Pair] = []
    for pair in pairs:
        waiting.append(pair)
        left, right = (" ".join(sides) for sides in zip(*waiting, strict=True))
        words = max(len(left.split()), len(right.split()))
        if words >= PARAGRAPH_WORDS[0]:
            joined += [(left, right)] if words <= PARAGRAPH_WORDS[1] else []
            waiting = []
    return joined


def table_of(title: str, rows: Sequence[StudyRow]) -> Iterator[Block]:
    """A table beside the paper's figures, and whether the paper's finding holds."""
    paper = PAPER_ROWS.get(title, {})
    yield Heading(title[0].upper() + title[1:])
    of_paper = paper, PAPER_P5.get(title, {})
    cells = [
        [
            row.name,
            *(f"{value:.1f}" for value in (row.p1, row.spread, row.p5)),
            *(f"{one.get(row.name, '')}" for one in of_paper),
        ]
        for row in rows
    ]
    header = ["", "P@1", "spread", "P@5", "paper's P@1", "P@5"]
    yield Table(header, cells, f"Of {rows[0].sentences:,} test pairs.")
    if title == "head":
        yield Paragraph(f"The paper's other encoders, P@1 and P@5 without and with the head: {PAPER_ENCODERS}.")
    if title in FINDINGS:
        yield Paragraph(f"The paper: {FINDINGS[title][0]}. {verdict(title, rows)}")


def verdict(title: str, rows: Sequence[StudyRow]) -> str:
    """One sentence: whether the paper's finding holds, or what is best."""
    _, expected = FINDINGS[title]
    best = max(rows, key=lambda row: row.p1)
    if expected is None:
        return f"Here: {', '.join(f'{row.name}: {row.p1:.1f}' for row in rows)}."
    named = next((row for row in rows if row.name == expected), None)
    if named is None:
        return f"Here {best.name} is best; there is no row {expected}."
    if best is named:
        second = max((row for row in rows if row is not named), key=lambda row: row.p1, default=named)
        is_close = second is not named and best.p1 - second.p1 <= 2 * np.hypot(best.error, second.error)
        return f"It holds here, by no more than chance beside {second.name}." if is_close else "It holds here."
    if best.p1 - named.p1 <= 2 * np.hypot(best.error, named.error):
        return f"Here {best.name} is ahead by no more than chance."
    return f"It does not hold here: {best.name} is {best.p1 - named.p1:.1f} points better."
