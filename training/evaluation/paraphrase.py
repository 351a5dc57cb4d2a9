"""Paraphrase detection: does the cosine tell paraphrases from other pairs with the same words? (PAWS-X)

    <part>.<aa>.tsv   label<TAB>sentence1<TAB>sentence2, the label 0 or 1; plain or .gz; train is skipped

Rows with an empty side are skipped, and what has no other row is left out. The score is the area under the ROC curve
x 100: 50 is chance. If `en` has as many rows, row i is assumed to translate row i of English, and sentence2 is also
compared with the English sentence1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from training.evaluation.lines import LANGUAGE, read_lines
from training.evaluation.vectors import Encode, paired_cosines

FILE = re.compile(rf"(?!train\.)\w+\.(?P<language>{LANGUAGE})\.tsv(\.gz)?")
Row = tuple[str, str, str]  # label, sentence1, sentence2


def find_paraphrases(folder: Path) -> dict[str, list[Row]]:
    """Language -> rows, including those with an empty side, of the files whose first column is 0 or 1."""
    sets = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = FILE.fullmatch(path.name)
        rows = [tuple(line.split("\t")) for line in read_lines(path)] if match else []
        if match and all(len(row) == 3 and row[0] in ("0", "1") for row in rows):
            sets[match["language"]] = rows
    return sets  # type: ignore[return-value]


def evaluate_paraphrases(
    encode: Encode, sets: dict[str, list[Row]], languages: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Metric -> language -> score: within the language, and its sentence2 against the English sentence1."""
    scores: dict[str, dict[str, float]] = {"auc": {}, "auc_against_english": {}}
    english = sets.get("en", [])
    for language in languages:
        rows = sets[language]
        compared = {"auc": rows}
        if language != "en" and len(english) == len(rows):
            mixed = [(label, one, two) for (label, _, two), (_, one, _) in zip(rows, english, strict=True)]
            compared["auc_against_english"] = mixed
        for metric, pairs in compared.items():
            if whole := [row for row in pairs if all(map(str.strip, row))]:
                scores[metric][language] = _score(encode, whole)
    return scores


def _score(encode: Encode, rows: list[Row]) -> float:
    labels, left, right = zip(*rows, strict=True)
    if len(set(labels)) < 2:
        return 50.0  # tells nothing
    is_paraphrase_N = np.array(labels) == "1"
    return round(
        100 * float(roc_auc_score(is_paraphrase_N, paired_cosines(encode(list(left)), encode(list(right))))), 2
    )
