"""Reads scored sentence pairs for the quality gate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from export.errors import BadRequest
from export.gate import StsPair
from training.system.text_files import text_lines


def read_sts(path: Path) -> tuple[StsPair, ...]:
    """Read a `score<TAB>sentence<TAB>sentence` file.

    Raises: BadRequest: the file cannot be read, a line is malformed (names it), or the scores are all equal.
    """
    try:
        lines = list(text_lines(path, error=ValueError))
    except ValueError as exc:
        raise BadRequest(f"{exc} (--sts)") from exc
    pairs = tuple(_pair(line, where=f"{path}:{number}") for number, line in lines)
    check_rankable(pairs, where=str(path))
    return pairs


def check_rankable(pairs: Sequence[StsPair], *, where: str) -> None:
    """Check that there are two different scores, as a rank correlation needs.

    Raises: BadRequest: there are not.
    """
    if len({score for score, _, _ in pairs}) < 2:
        raise BadRequest(f"{where} has {len(pairs)} pairs without two different scores: STS cannot be measured")


def _pair(line: str, *, where: str) -> StsPair:
    columns = line.removesuffix("\r").split("\t")
    try:
        score, left, right = columns
        value = float(score)
    except ValueError as exc:
        raise BadRequest(f"{where} is not score<TAB>sentence<TAB>sentence ({len(columns)} columns)") from exc
    if not math.isfinite(value):
        raise BadRequest(f"{where} has the score {score}, which is not a finite number")
    return value, left, right
