"""Reads and checks the files of evaluation sets: UTF-8, plain or gzip."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from training.errors import EvaluationError
from training.system.text_files import text_lines

T = TypeVar("T")

LANGUAGE = r"[a-z]{2,3}(?:_[A-Za-z]+)?"  # de, deu, zh_Hant
PAIR = rf"{LANGUAGE}-{LANGUAGE}"


def find_file(path: Path) -> Path | None:
    """The file, or its `.gz`; None if neither exists."""
    return next((file for file in (path, path.with_name(f"{path.name}.gz")) if file.is_file()), None)


def folders_under(root: Path) -> list[Path]:
    """A folder and all folders below it, sorted; follows links, skips hidden folders."""
    folders = []
    for folder, below, _ in os.walk(root, followlinks=True):
        below[:] = (name for name in below if not name.startswith("."))
        folders.append(Path(folder))
    return sorted(folders)


def read_lines(path: Path) -> list[str]:
    """All lines, without line ends. Only a line feed ends a line: U+2028 and the like are text.

    Raises: EvaluationError: the file is empty or a damaged gzip, or a line is not UTF-8.
    """
    lines = [line.rstrip("\r") for _, line in text_lines(path, error=EvaluationError)]
    if not lines:
        raise EvaluationError(f"{path} is empty")
    return lines


def read_rows(path: Path, layout: str) -> list[list[str]]:
    """The columns of each line; their number must match the layout, and none may be blank.

    Args:    layout: the columns' names, e.g. "id<TAB>text".
    Raises:  EvaluationError: names the file, the line and the layout.
    """
    return parse_lines(path, lambda line: split_columns(line, layout), layout)


def read_json_lines(path: Path, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """The JSON object of each line; it must have `keys`.

    Raises: EvaluationError: names the file, the line and the keys.
    """

    def parse(line: str) -> dict[str, Any]:
        value = json.loads(line)
        if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in keys):
            raise ValueError("lacks a key")
        return value

    return parse_lines(path, parse, f"a JSON object with the strings {', '.join(keys)}")


def parse_lines(path: Path, parse: Callable[[str], T], layout: str) -> list[T]:
    """Parse each line.

    Args:    parse: raises ValueError, saying what is wrong with the line.
    Raises:  EvaluationError: names the file, the line, the fault and the layout; never the text itself.
    """
    values = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            values.append(parse(line))
        except ValueError as exc:
            raise EvaluationError(f"{path} line {number} {exc}; the layout is {layout}") from exc
    return values


def check_unique(path: Path, ids: Sequence[object], what: str) -> None:
    """Check that no id occurs twice.

    Args:   ids: one a line; None: the line has no id.
    Raises: EvaluationError: names the file, the id and both lines.
    """
    lines: dict[object, int] = {}
    for number, id_ in enumerate(ids, start=1):
        if id_ is not None and (first := lines.setdefault(id_, number)) != number:
            raise EvaluationError(f"{path} line {number} repeats the {what} {id_} of line {first}; each must be unique")


def by_id(path: Path, rows: Sequence[tuple[str, str]]) -> dict[str, str]:
    """id -> text, in the order of the file.

    Raises: EvaluationError: an id occurs twice.
    """
    check_unique(path, [id_ for id_, _ in rows], "id")
    return dict(rows)


def split_columns(line: str, layout: str) -> list[str]:
    """Split a line into columns.

    Raises: ValueError: their number differs from the layout's, or one is blank.
    """
    columns, wanted = line.split("\t"), layout.count("<TAB>") + 1
    if len(columns) != wanted:
        raise ValueError(f"has {len(columns)} columns")
    if not all(map(str.strip, columns)):
        raise ValueError("has an empty column")
    return columns


def parse_score(text: str) -> float:
    """Parse a finite number.

    Raises: ValueError: the text is not one.
    """
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise ValueError("has a score that is not a number")
    return score
