"""Reads the files that options name: texts, scored pairs, pairs of a re-ranker and questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from export.checkpoint import Pair
from export.errors import BadRequest
from export.gate import StsPair
from training.errors import EvaluationError
from training.reranking.collection import Texts, evenly_spaced
from training.reranking.ranking import RankingSet, pools_in
from training.reranking.readers import read_jsonl
from training.system.text_files import text_lines

MOST_CALIBRATION = 4_000  # texts or pairs; the ranges of each take 0.2 MB

T = TypeVar("T")


def some_of(rows: Sequence[T]) -> list[T]:
    """Return at most MOST_CALIBRATION rows, evenly spaced."""
    return [rows[place] for place in evenly_spaced(len(rows), MOST_CALIBRATION)]


def read_texts(path: Path) -> tuple[str, ...]:
    """Read one text a line, without empty lines. Only a line feed ends a line.

    Raises: BadRequest: the file cannot be read, a line is not UTF-8 (names it), or there is no text.
    """
    texts = tuple(line for _, line in _lines(path, "--calibration") if line.strip())
    if not texts:
        raise BadRequest(f"{path} has no text (--calibration)")
    return texts


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """`query<TAB>passage`, a pair a line; empty lines are left out.

    Raises: BadRequest: the file cannot be read, a line is malformed (names it), or there is no pair.
    """
    pairs: list[Pair] = []
    for number, line in _lines(path, "--calibration"):
        query, separator, passage = line.partition("\t")
        if not line.strip():
            continue
        if not separator or "\t" in passage:
            raise BadRequest(f"{path}:{number} is not query<TAB>passage (--calibration)")
        pairs.append((query, passage))
    if not pairs:
        raise BadRequest(f"{path} has no pair (--calibration)")
    return tuple(pairs)


def read_sts(path: Path) -> tuple[StsPair, ...]:
    """Read a `score<TAB>sentence<TAB>sentence` file.

    Raises: BadRequest: the file cannot be read, a line is malformed (names it), or the scores are all equal.
    """
    pairs = tuple(_sts_pair(line, where=f"{path}:{number}") for number, line in list(_lines(path, "--sts")))
    check_rankable(pairs, where=str(path))
    return pairs


def check_rankable(pairs: Sequence[StsPair], *, where: str) -> None:
    """Check that there are two different scores, as a rank correlation needs.

    Raises: BadRequest: there are not.
    """
    if len({score for score, _, _ in pairs}) < 2:
        raise BadRequest(f"{where} has {len(pairs)} pairs without two different scores: STS cannot be measured")


def read_questions(path: Path) -> RankingSet:
    """The questions of a JSON-lines file: query, positives and, where known, negatives (else all passages are ranked).

    Raises: BadRequest: the file cannot be read, is malformed, or leaves nothing to rank.
    """
    try:
        collection = read_jsonl(path)
    except (EvaluationError, OSError) as exc:
        raise BadRequest(f"{exc} (--questions)") from exc
    languages = _first([question.texts for question in collection.questions])
    questions = RankingSet.of(collection, languages, pools_in(collection, _first(collection.passages)))
    if all(len(row) == len(own) for row, own in zip(questions.candidates, questions.positives, strict=True)):
        raise BadRequest(f"{path} has no question with a passage that does not answer it (--questions)")
    return questions


def _lines(path: Path, option: str) -> Iterator[tuple[int, str]]:
    try:
        for number, line in text_lines(path, error=ValueError):
            yield number, line.rstrip("\r")
    except ValueError as exc:
        raise BadRequest(f"{exc} ({option})") from exc


def _sts_pair(line: str, *, where: str) -> StsPair:
    columns = line.split("\t")
    try:
        score, left, right = columns
        value = float(score)
    except ValueError as exc:
        raise BadRequest(f"{where} is not score<TAB>sentence<TAB>sentence ({len(columns)} columns)") from exc
    if not math.isfinite(value):
        raise BadRequest(f"{where} has the score {score}, which is not a finite number")
    return value, left, right


def _first(texts: Sequence[Texts]) -> list[str | None]:
    return [next(iter(languages)) for languages in texts]
