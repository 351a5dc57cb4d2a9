"""Reads the files that options name: texts, scored pairs, pairs of a re-ranker and questions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from export.checkpoint import Pair, RankingGate
from export.errors import BadRequest
from export.gate import StsPair
from training.errors import EvaluationError
from training.reranking.collection import Texts
from training.reranking.ranking import RankingSet
from training.reranking.readers import read_jsonl
from training.system.text_files import text_lines


def read_texts(path: Path) -> tuple[str, ...]:
    """Read one text a line, without empty lines. Only a line feed ends a line.

    Raises: BadRequest: the file cannot be read, a line is not UTF-8 (names it), or there is no text.
    """
    try:
        lines = [line.rstrip("\r") for _, line in text_lines(path, error=ValueError)]
    except ValueError as exc:
        raise BadRequest(f"{exc} (--calibration)") from exc
    texts = tuple(line for line in lines if line.strip())
    if not texts:
        raise BadRequest(f"{path} has no text (--calibration)")
    return texts


def read_sts(path: Path) -> tuple[StsPair, ...]:
    """Read a `score<TAB>sentence<TAB>sentence` file.

    Raises: BadRequest: the file cannot be read, a line is malformed (names it), or the scores are all equal.
    """
    try:
        lines = list(text_lines(path, error=ValueError))
    except ValueError as exc:
        raise BadRequest(f"{exc} (--sts)") from exc
    pairs = tuple(_sts_pair(line, where=f"{path}:{number}") for number, line in lines)
    check_rankable(pairs, where=str(path))
    return pairs


def check_rankable(pairs: Sequence[StsPair], *, where: str) -> None:
    """Check that there are two different scores, as a rank correlation needs.

    Raises: BadRequest: there are not.
    """
    if len({score for score, _, _ in pairs}) < 2:
        raise BadRequest(f"{where} has {len(pairs)} pairs without two different scores: STS cannot be measured")


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """`query<TAB>passage`, a pair a line; empty lines are left out.

    Raises: BadRequest: the file cannot be read, a line is malformed (names it), or there is no pair.
    """
    pairs: list[Pair] = []
    try:
        for number, line in text_lines(path, error=ValueError):
            query, separator, passage = line.rstrip("\r").partition("\t")
            if not line.strip():
                continue
            if not separator or "\t" in passage:
                raise ValueError(f"{path}:{number} is not query<TAB>passage")
            pairs.append((query, passage))
    except ValueError as exc:
        raise BadRequest(f"{exc} (--calibration)") from exc
    if not pairs:
        raise BadRequest(f"{path} has no pair (--calibration)")
    return tuple(pairs)


def read_questions(path: Path) -> RankingGate:
    """The questions of a JSON-lines file: query, positives and, where known, negatives (else all passages are ranked).

    Raises: BadRequest: the file cannot be read, is malformed, or leaves nothing to rank.
    """
    try:
        collection = read_jsonl(path)
    except (EvaluationError, OSError) as exc:
        raise BadRequest(f"{exc} (--questions)") from exc
    found = RankingSet.of(collection, _first([one.texts for one in collection.questions]), _first(collection.passages))
    if not any(len(row) > len(positives) for row, positives in zip(found.candidates, found.positives, strict=True)):
        raise BadRequest(f"{path} has no question with a passage that does not answer it (--questions)")
    return RankingGate(
        tuple(found.queries),
        tuple(found.passages),
        tuple(tuple(row.tolist()) for row in found.candidates),
        tuple(tuple(sorted(row)) for row in found.positives),
    )


def _sts_pair(line: str, *, where: str) -> StsPair:
    columns = line.removesuffix("\r").split("\t")
    try:
        score, left, right = columns
        value = float(score)
    except ValueError as exc:
        raise BadRequest(f"{where} is not score<TAB>sentence<TAB>sentence ({len(columns)} columns)") from exc
    if not math.isfinite(value):
        raise BadRequest(f"{where} has the score {score}, which is not a finite number")
    return value, left, right


def _first(texts: Sequence[Texts]) -> list[str | None]:
    """The language of each that it has first."""
    return [next(iter(one)) for one in texts]
