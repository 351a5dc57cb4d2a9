"""Finds the lines of a file that say the same, in any language.

A group is a line and the later lines near it; a line near several groups joins the earliest. Every line is near the
group's first line: chaining from line to line would join unlike sentences.

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
    """Group lines whose cosine is at least the threshold. Memory: 2 x N x dim bytes of vectors."""
    vectors_ND = embed_lines(lines, engine, dim=dim, max_text_chars=settings.max_text_chars)
    with progress("pairs", total=len(lines), unit="lines") as bar:
        return leaders(vectors_ND, threshold, advance=bar.update)


def groups_as_json(lines: Lines, first_N: Firsts) -> Iterator[bytes]:
    """Yield {"lines": [..], "texts": [..]} for each group of two or more, by first line. Lines count from 1."""
    order = np.argsort(first_N, kind="stable")
    starts = np.flatnonzero(np.diff(first_N[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        if len(rows) > 1:
            members: list[int] = rows.tolist()
            group = {"lines": [lines.number(row) for row in members], "texts": [lines.text(row) for row in members]}
            yield orjson.dumps(group, option=orjson.OPT_APPEND_NEWLINE)


def without_repeats(lines: Lines, first_N: Firsts) -> Iterator[bytes]:
    """Yield the first line of each group and every line without one, byte for byte as in the file."""
    for row in np.flatnonzero(first_N == np.arange(len(first_N))).tolist():
        line = lines.raw(row)
        yield line if line.endswith(b"\n") else line + b"\n"
