"""Paraphrase detection: does the cosine tell paraphrases from other pairs with the same words? (PAWS-X)

    <part>.<aa>.tsv   label<TAB>sentence1<TAB>sentence2, the label 0 or 1; plain or .gz; train is skipped

Rows with an empty side are skipped. The score is the area under the ROC curve x 100: 50 is chance. If `en` has as
many rows, row i is assumed to translate row i of English, and sentence2 is also compared with the English sentence1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from training.evaluation.lines import LANGUAGE, read_lines
from training.evaluation.vectors import Encode, unit_rows

FILE = re.compile(rf"(?!train\.)\w+\.(?P<language>{LANGUAGE})\.tsv(\.gz)?")
Row = tuple[str, str, str]  # label, sentence1, sentence2


def find_paraphrases(folder: Path) -> dict[str, list[Row]]:
    """Language -> rows, including those with an empty side, of the files whose first column is 0 or 1."""
    found = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = FILE.fullmatch(path.name)
        if match and (rows := _rows(path)):
            found[match["language"]] = rows
    return found


def evaluate_paraphrases(
    encode: Encode, found: dict[str, list[Row]], languages: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Metric -> language -> score: within the language, and its sentence2 against the English sentence1."""
    own, crosslingual = {}, {}
    english = found.get("en", [])
    for language in languages:
        rows = found[language]
        own[language] = _score(encode, rows)
        if language != "en" and len(english) == len(rows):
            mixed = [(label, one, two) for (label, _, two), (_, one, _) in zip(rows, english, strict=True)]
            crosslingual[language] = _score(encode, mixed)
    return {"auc": own, "auc_against_english": crosslingual}


def area_under_curve(score_N: NDArray[np.float32], is_positive_N: NDArray[np.bool_]) -> float:
    """Probability x 100 that a positive scores above a negative; ties count half."""
    positives = int(is_positive_N.sum())
    negatives = len(is_positive_N) - positives
    if not positives or not negatives:
        return 50.0
    above = rankdata(score_N)[is_positive_N].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives)) * 100


def _score(encode: Encode, rows: list[Row]) -> float:
    labels, left, right = zip(*(row for row in rows if all(map(str.strip, row))), strict=True)
    cosine_N = (unit_rows(encode(list(left))) * unit_rows(encode(list(right)))).sum(axis=1)
    return round(area_under_curve(cosine_N, np.array(labels) == "1"), 2)


def _rows(path: Path) -> list[Row]:
    """All rows; empty if any line has another layout."""
    rows = [tuple(line.split("\t")) for line in read_lines(path)]
    is_of_layout = all(len(row) == 3 and row[0] in ("0", "1") for row in rows)
    return rows if is_of_layout else []  # type: ignore[return-value]
