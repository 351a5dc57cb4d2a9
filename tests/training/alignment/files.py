"""Files of pairs for the tests: English and German from a grammar."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from tests.parallel_text import OBJECTS, SUBJECTS, VERBS

ORDER = np.random.default_rng(0).permutation(len(SUBJECTS) * len(VERBS) * len(OBJECTS))
ALL = list(product(SUBJECTS, VERBS, OBJECTS))
PAIRS = [
    (f"{subject[0]} {verb[0]} {thing[0]}.", f"{subject[1]} {verb[1]} {thing[1]}.")
    for subject, verb, thing in (ALL[number] for number in ORDER[:300])
]
GREEK = str.maketrans("abdefghiklmnoprstuvwz", "αβδεφγηικλμνοπρστυωχζ")
IN_GREEK = [(english, german.lower().translate(GREEK)) for english, german in PAIRS]


def write_pairs(path: Path, pairs: Sequence[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{left}\t{right}\n" for left, right in pairs), encoding="utf-8")
    return path
