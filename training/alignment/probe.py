"""What a head does to every language: a small text in 18 languages that this project wrote, and no head is trained on.

`probe.tsv` has a column a language and a row a sentence, each a translation of the others.

Shapes: S sentences of each language, D dims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from training.alignment.layers import Vectors
from training.evaluation.lines import read_lines
from training.evaluation.vectors import Encode, unit_rows

PROBE = Path(__file__).parent / "probe.tsv"
MAX_LOSS = 0.5  # points of a language
ProbeScores = dict[str, float]


@cache
def read_probe() -> Mapping[str, tuple[str, ...]]:
    """Language -> its sentences, in one order."""
    names, *rows = (line.split("\t") for line in read_lines(PROBE))
    return {name: tuple(row[column] for row in rows) for column, name in enumerate(names)}


def embed_probe(encode: Encode, languages: Sequence[str] | None) -> dict[str, Vectors]:
    """Vectors of the probe, (S, D) a language.

    Args: languages: that the model knows, with or without a script behind (zh_Hant); None: it does not say, so all.
    """
    known = {language.split("_")[0] for language in languages or ()}
    chosen = [name for name in read_probe() if languages is None or name in known]
    if not chosen:
        return {}
    vectors_ND = encode([text for name in chosen for text in read_probe()[name]])
    return dict(zip(chosen, np.split(vectors_ND, len(chosen)), strict=True))


def probe_scores(vectors: Mapping[str, Vectors], head: Callable[[Vectors], Vectors] = unit_rows) -> ProbeScores:
    """Of each language, P@1 x 100 between it and each other one, both ways, the mean of all; {} with fewer than two.

    Args: head: what vectors go through before they are compared by cosine.
    """
    mapped = {name: unit_rows(head(own_SD)) for name, own_SD in vectors.items()}
    found: dict[str, list[float]] = {name: [] for name in mapped}
    names = list(mapped)
    for position, left in enumerate(names):
        for right in names[position + 1 :]:
            cosine_SS = mapped[left] @ mapped[right].T
            own_S = np.arange(len(cosine_SS))
            hits = [float((cosine_SS.argmax(axis=axis) == own_S).mean()) * 100 for axis in (0, 1)]
            for name in (left, right):
                found[name] += hits
    return {name: round(float(np.mean(hits)), 2) for name, hits in found.items() if hits}


def losses_of(before: ProbeScores, after: ProbeScores, *, most: float = MAX_LOSS) -> ProbeScores:
    """What lost more than so many points, and how many: {} where nothing did."""
    lost = {name: round(before[name] - after[name], 2) for name in before}
    return {name: points for name, points in lost.items() if points > most}
