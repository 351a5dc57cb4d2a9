"""Finds the lines of a file that say the same, in whatever language. Knows lines and cosines; knows no command line.

A group is a line and the later ones that are near it, each in the earliest such group: near the group's first line, not
only near another of its lines, through which unlike sentences would meet.

N lines
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import orjson

from service.bulk.engine import Engine
from service.bulk.lines import Lines
from service.bulk.neighbours import leaders
from service.bulk.progress import progress
from service.bulk.texts import embed_lines
from service.settings import Settings

Firsts = npt.NDArray[np.int64]  # (N,): the first row of each row's group


def find_groups(lines: Lines, engine: Engine, *, threshold: float, dim: int, settings: Settings) -> Firsts:
    """Group the lines by "cosine at least the threshold": 2 x N x dim bytes of vectors."""
    vectors_ND = embed_lines(lines, engine, dim=dim, max_text_chars=settings.max_text_chars)
    with progress("pairs", total=len(lines), unit="lines") as bar:
        return leaders(vectors_ND, threshold, advance=bar.update)


def groups_as_json(lines: Lines, first_N: Firsts) -> Iterator[bytes]:
    """{"lines": [..], "texts": [..]} a group of two or more, by their first line; lines are numbered from 1."""
    order = np.argsort(first_N, kind="stable")
    starts = np.flatnonzero(np.diff(first_N[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        if len(rows) > 1:
            members: list[int] = rows.tolist()
            group = {"lines": [lines.number(row) for row in members], "texts": [lines.text(row) for row in members]}
            yield orjson.dumps(group, option=orjson.OPT_APPEND_NEWLINE)


def without_repeats(lines: Lines, first_N: Firsts) -> Iterator[bytes]:
    """The first line of each group, and every line that is in none, byte by byte as they are in the file."""
    for row in np.flatnonzero(first_N == np.arange(len(first_N))).tolist():
        line = lines.raw(row)
        yield line if line.endswith(b"\n") else line + b"\n"
