"""Measures a model before and after a change: translations found, and what must stay: languages, similarity, search.

`probe.tsv` has a column for each of 18 languages; each row is one sentence in all of them. This project wrote it, and
nothing is trained on it.

Shapes: S sentences of each language, D dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.alignment.layers import Sides, Vectors
from training.alignment.pairs import Pair, PairFile, Split
from training.errors import AlignmentError
from training.evaluation.bitext import ranks_of_translations, score_bitext
from training.evaluation.encoders import Model
from training.evaluation.lines import read_lines
from training.evaluation.search import bundled_search
from training.evaluation.sts import evaluate_sts, find_sts, languages_of
from training.evaluation.vectors import Encode, each_text_once, unit_rows

PROBE = Path(__file__).parent / "probe.tsv"
MAX_LOSS = 0.5  # points that a language, or similarity on average, may lose
MAX_SEARCH_LOSS = 1.0  # points of MRR: whatever gains a new language costs the others some
NOISE = 1.64  # standard errors that a gain must exceed: chance passes one time in twenty
STS_ROWS = 300  # of each dev set
Scores = dict[str, float]  # language, language pair or metric -> score x 100


@dataclass(frozen=True)
class PairTask:
    """A model, and the pairs to change it with.

    data: folder with stsb or eval/stsb, or None.  max_search_loss: as `Guard.lost` has it.
    """

    model: Model
    pairs: PairFile
    split: Split
    data: Path | None
    max_search_loss: float = field(default=MAX_SEARCH_LOSS, kw_only=True)

    def lost(self, before: Guard, after: Guard) -> Scores:
        """Return the points lost, where they are more than allowed."""
        return before.lost(after, max_search_loss=self.max_search_loss)


@dataclass(frozen=True)
class Guard:
    """What no change may harm.

    probe: P@1 by language.  sts: by language pair.  search: MRR of the bundled set's dev queries, over all documents.
    """

    probe: Scores
    sts: Scores
    search: Scores

    def lost(self, after: Guard, *, max_search_loss: float = MAX_SEARCH_LOSS) -> Scores:
        """Return the points lost, where they are more than allowed; of similarity the mean counts."""
        similar = [{"similarity": float(np.mean(list(one.sts.values())))} if one.sts else {} for one in (self, after)]
        return {
            **lost_points(self.probe, after.probe),
            **lost_points(*similar),
            **lost_points(self.search, after.search, most=max_search_loss),
        }


@dataclass(frozen=True)
class ServedScores:
    """What a model scores as it is served.

    test: P@1 and P@5 of the test pairs.  sides: unit vectors of the test pairs, for the plot.
    """

    test: Scores
    guard: Guard
    sides: Sides


def served_scores(model: Model, task: PairTask, *, bar: str) -> ServedScores:
    """Measure a served model.  bar: name of its progress bars."""
    encode = each_text_once(model.encode, bar=bar)
    encode([text for pair in task.split.test for text in pair])
    sides = embed_pairs(task.split.test, encode)
    return ServedScores(score_bitext(*sides), guard_scores(encode, task.data, task.model.languages), sides)


def guard_scores(encode: Encode, data: Path | None, languages: Sequence[str] | None) -> Guard:
    """Measure what must stay.

    Raises: AlignmentError: `data` has no STS set.
    """
    return Guard(
        probe_scores(embed_probe(encode, languages)),
        sts_scores(encode, data, languages),
        search_scores(encode, languages),
    )


def search_scores(encode: Encode, languages: Sequence[str] | None) -> Scores:
    """MRR x 100 of the bundled search set's dev queries in the model's languages; {} if there is none."""
    search_set = bundled_search()
    queries = [
        query
        for query in search_set.queries
        if query.is_dev and query.document is not None and (languages is None or is_known(query.language, languages))
    ]
    if not queries:
        return {}
    query_QD = unit_rows(encode([query.text for query in queries]))
    cosine_QN = query_QD @ unit_rows(encode(search_set.documents)).T
    own_Q = np.take_along_axis(cosine_QN, np.array([[query.document] for query in queries], np.int64), 1)
    rank_Q = (cosine_QN > own_Q).sum(axis=1) + 1
    return {"search": round(float(np.mean(1 / rank_Q)) * 100, 2)}


def hits_of(sides: Sides) -> NDArray[np.bool_]:
    """Whether each sentence's translation is the nearest, both ways, (2N,)."""
    left_ND, right_ND = sides
    return np.concatenate([ranks_of_translations(*pair) == 0 for pair in ((left_ND, right_ND), (right_ND, left_ND))])


def is_gain(before_N: NDArray[np.bool_], after_N: NDArray[np.bool_]) -> bool:
    """Whether more is found after than before, by more than chance: a paired test of the differences."""
    difference_N = after_N.astype(float) - before_N
    return bool(difference_N.mean() > NOISE * difference_N.std() / np.sqrt(len(difference_N)))


def embed_pairs(pairs: Sequence[Pair], encode: Encode) -> Sides:
    """Unit vectors of both sides."""
    left, right = (unit_rows(encode([pair[side] for pair in pairs])) for side in (0, 1))
    return left, right


@cache
def read_probe() -> Mapping[str, tuple[str, ...]]:
    """Language -> its sentences, in one order."""
    names, *rows = (line.split("\t") for line in read_lines(PROBE))
    return {name: tuple(row[column] for row in rows) for column, name in enumerate(names)}


def is_known(language: str, languages: Sequence[str] | None) -> bool:
    """Whether a model knows a language, with or without a script (zh_Hant).  languages: None: the model names none."""
    return language.split("_")[0] in {known.split("_")[0] for known in languages or ()}


def embed_probe(encode: Encode, languages: Sequence[str] | None) -> dict[str, Vectors]:
    """Vectors of the probe by language, (S, D) each, in the model's languages; None: in all."""
    chosen = [name for name in read_probe() if languages is None or is_known(name, languages)]
    if not chosen:
        return {}
    vectors_ND = encode([text for name in chosen for text in read_probe()[name]])
    return dict(zip(chosen, np.split(vectors_ND, len(chosen)), strict=True))


def probe_scores(vectors: Mapping[str, Vectors]) -> Scores:
    """P@1 of each language: the mean over every other language and both ways; {} with fewer than two languages."""
    unit = {name: unit_rows(own_SD) for name, own_SD in vectors.items()}
    scores: dict[str, list[float]] = {name: [] for name in unit}
    for left, right in combinations(unit, 2):
        cosine_SS = unit[left] @ unit[right].T
        both = [float((cosine_SS.argmax(axis=axis) == np.arange(len(cosine_SS))).mean()) * 100 for axis in (0, 1)]
        scores[left] += both
        scores[right] += both
    return {name: round(float(np.mean(values)), 2) for name, values in scores.items() if values}


def sts_scores(encode: Encode, data: Path | None, languages: Sequence[str] | None) -> Scores:
    """Spearman of the dev sets under `data` in these languages (None: all); {} without data.

    Raises: AlignmentError: `data` has no such sets.
    """
    if data is None:
        return {}
    folder = next((path for path in (data / "eval/stsb/dev", data / "stsb/dev") if path.is_dir()), None)
    if folder is None:
        raise AlignmentError(f"{data} has no stsb/dev and no eval/stsb/dev to measure similarity on (--data)")
    pairs = [pair for pair in find_sts(folder) if languages is None or set(languages_of(pair)) <= set(languages)]
    return evaluate_sts(encode, folder, pairs, rows=STS_ROWS)


def lost_points(before: Scores, after: Scores, *, most: float = MAX_LOSS) -> Scores:
    """The points lost, where they are more than `most`."""
    lost = {name: round(before[name] - after[name], 2) for name in before}
    return {name: points for name, points in lost.items() if points > most}


def listed(lost: Scores) -> str:
    """Points lost, as text: "de 0.60, fr 1.20"."""
    return ", ".join(f"{name} {points:.2f}" for name, points in lost.items())


def lost_beyond(lost: Scores) -> str:
    """Return the reason to refuse a model that harms what must stay."""
    return f"points lost beyond what is allowed: {listed(lost)}"
