"""Reads a file of sentence pairs in any two languages, refuses what no head can be learnt from, and splits the pairs.

left<TAB>right               `zh-vi.tsv`, `en-de.news.tsv.gz`: the name says the languages
score<TAB>left<TAB>right     what `crosslet mine` writes
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from training.corpora.keys import matching_key
from training.corpora.leakage import EvaluationSentences
from training.errors import AlignmentError
from training.evaluation.lines import LANGUAGE, parse_score
from training.system.text_files import NOT_UTF8, numbered_lines

Pair = tuple[str, str]
MIN_PAIRS = 100
MAX_IDENTICAL = 0.1  # share of the pairs
CHECKED = 200  # texts of a side whose language is looked at
MOSTLY = 0.5  # share of them
NAME = re.compile(rf"(?P<left>{LANGUAGE})-(?P<right>{LANGUAGE})\..+")
DEV_SHARE, MOST_DEV = 0.1, 500
TEST_SHARE, MOST_TEST = 0.15, 500
MIN_CHARS = 20  # shorter texts are not checked
MAX_CHARS = 200  # read of a longer text: the time grows with them
OTHER_AT_LEAST = 0.7  # the probability of another language, to call a text wrong
OWN_AT_MOST = 0.05  # the probability of its own language, to call a text wrong
SAME = {"nb": ("nb", "no", "nn"), "nn": ("nn", "no", "nb")}  # our code: py3langid's codes for it


@dataclass(frozen=True)
class PairFile:
    """Distinct pairs of two languages, and how many lines were left out, by reason."""

    path: Path
    languages: tuple[str, str]
    pairs: list[Pair]
    dropped: Counter[str]

    @property
    def label(self) -> str:
        """E.g. zh-vi."""
        return "-".join(self.languages)


def with_languages(known: Sequence[str], label: str) -> tuple[str, ...]:
    """Return a model's languages with those of a pair that it lacks.  label: `PairFile.label`."""
    return tuple(dict.fromkeys([*known, *(language.split("_")[0] for language in label.split("-"))]))


def read_pairs(
    path: Path,
    *,
    languages: tuple[str, str] | None = None,
    min_score: float | None = None,
    least: int = MIN_PAIRS,
    barred: EvaluationSentences | None = None,
) -> PairFile:
    """The pairs of a file, plain or .gz, UTF-8; repeats and pairs of equal sides are left out.

    Args:   languages: of the two columns; None: the file's name says them.  min_score: for lines that have a score.
            least: the fewest distinct pairs.  barred: sentences whose pairs are left out.
    Raises: AlignmentError: one sentence that names the file, what is wrong and what would be right.
    """
    if languages is None:
        match = NAME.fullmatch(path.name)
        if not match:
            raise AlignmentError(
                f"{path.name} does not say its languages; name it like zh-vi.tsv, or give --languages zh,vi"
            )
        languages = match["left"], match["right"]
    if languages[0] == languages[1]:
        raise AlignmentError(f"{path} is said to have {languages[0]} on both sides; a pair is of two languages")
    rows = list(_read_rows(path, min_score))
    pairs = [row for row in rows if row is not None]
    distinct = list(dict.fromkeys(pairs))
    allowed = [pair for pair in distinct if barred is None or not (pair[0] in barred or pair[1] in barred)]
    unlike = [pair for pair in allowed if matching_key(pair[0]) != matching_key(pair[1])]
    alike = len(allowed) - len(unlike)
    dropped = Counter(
        {
            "under the least score": len(rows) - len(pairs),
            "repeated": len(pairs) - len(distinct),
            "in an evaluation set": len(distinct) - len(allowed),
            "the same on both sides": alike,
        }
    )
    if alike > MAX_IDENTICAL * len(allowed):
        raise AlignmentError(
            f"{path} has {alike} pairs of {len(allowed)} with the same text on both sides; "
            "the second side is to be a translation"
        )
    if len(unlike) < least:
        raise AlignmentError(f"{path} has {len(unlike)} distinct pairs; at least {least} are needed, 2,000 are good")
    _check_languages(path, languages, unlike)
    return PairFile(path, languages, unlike, +dropped)


def _read_rows(path: Path, min_score: float | None) -> Iterator[Pair | None]:
    """The pair of each line, None where its score is too low."""
    columns = None
    for number, line in numbered_lines(path, error=AlignmentError):
        if line is None:
            raise AlignmentError(f"{path} line {number} {NOT_UTF8}; save the file as UTF-8")
        cells = [cell.strip() for cell in line.rstrip("\r").split("\t")]
        columns = columns or len(cells)
        where = f"{path} line {number} has {len(cells)} column{'s' * (len(cells) != 1)}"
        if columns not in (2, 3) or len(cells) != columns or not all(cells):
            raise AlignmentError(f"{where}; a line is left<TAB>right, or score<TAB>left<TAB>right, none of them empty")
        *scores, left, right = cells
        if min_score is not None and not scores:
            raise AlignmentError(f"{where}, none of them a score; leave --min-score out")
        try:
            is_low = any(parse_score(score) < (-math.inf if min_score is None else min_score) for score in scores)
        except ValueError as exc:
            raise AlignmentError(
                f"{where}, of which the first is no score; a line is score<TAB>left<TAB>right"
            ) from exc
        yield None if is_low else (left, right)


def _check_languages(path: Path, languages: tuple[str, str], pairs: Sequence[Pair]) -> None:
    """Refuse a side that is mostly in another language than it is said to be; short texts do not count."""
    for side, language in enumerate(languages):
        check = LanguageCheck(language)
        texts = list(islice((pair[side] for pair in pairs if len(pair[side]) >= MIN_CHARS), CHECKED))
        wrong = [text for text in texts if check.is_wrong(text)]
        if len(wrong) > MOSTLY * len(texts):
            likely = likeliest_language(wrong)
            both = "one language on both sides: " if likely == languages[1 - side] else ""
            raise AlignmentError(
                f"{path} has {both}column {side + 1} of 2 is said to be {language} and looks like {likely} in "
                f"{len(wrong)} of {len(texts)} texts; --languages says which they are"
            )


class LanguageCheck:
    """Checks texts against one language; a language that py3langid does not know is never wrong.

    The limits flag 0.24 % of 42,720 texts of 22 sources in 63 languages, nearly all rightly, and 87 % of English
    sentences filed under another language. A text takes 0.1 ms.
    """

    def __init__(self, language: str) -> None:
        code = language.split("_")[0]
        self._identifier = _identifier()
        self._own = [name for name in SAME.get(code, (code,)) if name in self._identifier.labels]

    def is_wrong(self, text: str) -> bool:
        """Return whether a text is clearly in another language."""
        if not self._own or len(text) < MIN_CHARS:
            return False
        ranked = self._identifier.rank(text[:MAX_CHARS])
        probability = dict(ranked)
        own = sum(probability[name] for name in self._own)
        return bool(ranked[0][1] >= OTHER_AT_LEAST and own <= OWN_AT_MOST)


def likeliest_language(texts: Iterable[str]) -> str:
    """The language that most of the texts look like."""
    ((language, _),) = Counter(_identifier().classify(text)[0] for text in texts).most_common(1)
    return str(language)


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@dataclass(frozen=True)
class Split:
    """Pairs to train on, to choose with, and to measure with: no sentence is in two of them."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def split_file(pairs: PairFile, test: PairFile | None, *, seed: int) -> Split:
    """Args: test: None: part of the pairs is held out.

    Raises: AlignmentError: the test has sentences of the pairs, or too little is left to train on.
    """
    if test is not None:
        check_disjoint(pairs, test)
        rest, measured = pairs.pairs, test.pairs
    else:
        rest, measured = split_pairs(pairs.pairs, TEST_SHARE, most=MOST_TEST, seed=seed)
    train, dev = split_pairs(rest, DEV_SHARE, most=MOST_DEV, seed=seed)
    if not (train and dev and measured):
        raise AlignmentError(
            f"{pairs.path} cannot be split: nearly all of its pairs share sentences; give --test and other pairs"
        )
    return Split(train, dev, measured)


def check_disjoint(train: PairFile, test: PairFile) -> None:
    """Raises: AlignmentError: a sentence of the test is also trained on, on the same side."""
    known = [{matching_key(pair[side]) for pair in train.pairs} for side in (0, 1)]
    shared = sum(matching_key(left) in known[0] or matching_key(right) in known[1] for left, right in test.pairs)
    if shared:
        raise AlignmentError(
            f"{shared} of the {len(test.pairs)} pairs of {test.path} have a sentence that {train.path} has too; "
            "take them out of one of the two"
        )


def split_pairs(pairs: Sequence[Pair], share: float, *, most: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Most of the pairs, and about a share of them, at most `most`; no sentence is on both sides of the split."""
    groups = _groups(pairs)
    sizes, held, count = Counter(groups), set(), 0
    for group in np.random.default_rng(seed).permutation(sorted(sizes)).tolist():
        if count + sizes[group] <= min(most, round(share * len(pairs))):
            held.add(group)
            count += sizes[group]
    kept = [pair for pair, group in zip(pairs, groups, strict=True) if group not in held]
    return kept, [pair for pair, group in zip(pairs, groups, strict=True) if group in held]


def _groups(pairs: Sequence[Pair]) -> list[int]:
    """A number for each pair: pairs that share a sentence, directly or through others, have the same."""
    parent = list(range(len(pairs)))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for side in (0, 1):
        first: dict[str, int] = {}
        for row, pair in enumerate(pairs):
            parent[root(row)] = root(first.setdefault(matching_key(pair[side]), row))
    return [root(row) for row in range(len(pairs))]
