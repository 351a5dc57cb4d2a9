"""Finds the lines of a file that say the same, in any language.

A group is a line and the later lines near it; a line near several groups joins the earliest. Every line is near the
group's first line, or equal to one that is: chaining from line to line would join unlike sentences.

Near are lines with a large cosine that is also large beside those with other lines: a margin. A cosine alone joins
sentences about one subject ("Sami gave Layla the money", "Sami borrowed money from Layla") before translations. The
lines beside are the farther half of the nearest: the nearer half may say the same in other languages or words. Lines
with equal vectors count once.

N lines, U of different vectors, P pairs, D dims
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import orjson

from service.bulk.engine import Engine
from service.bulk.lines import Lines
from service.bulk.margin import different, near_pairs
from service.bulk.neighbours import ROUNDING, Advance, Halves, leaders, nearest_others
from service.bulk.progress import progress
from service.bulk.texts import embed_lines
from service.process.cpus import usable_cpus
from service.settings import Settings

Firsts = npt.NDArray[np.int64]  # (N,): the first row of each row's group


NEIGHBOURS = 16  # the nearer half may be of a line's group; in a file of fewer lines the cosine alone counts


def find_groups(lines: Lines, engine: Engine, *, cosine: float, margin: float, dim: int, settings: Settings) -> Firsts:
    """Group lines with at least that cosine and margin; margin 0: by cosine alone.

    Memory: 2 x N x dim bytes of vectors, and as much again where lines repeat.
    """
    vectors_ND = embed_lines(lines, engine, dim=dim, max_text_chars=settings.max_text_chars)
    with progress("pairs", total=len(lines), unit="lines") as bar:
        if not margin:
            return leaders(vectors_ND, cosine, advance=bar.update)
        threads = settings.workers or usable_cpus()
        return groups_by_margin(vectors_ND, cosine=cosine, margin=margin, threads=threads, advance=bar.update)


def groups_by_margin(vectors_ND: Halves, *, cosine: float, margin: float, threads: int, advance: Advance) -> Firsts:
    """Group rows of equal vectors, then those with at least that cosine and margin; few rows by cosine alone."""
    row_U, place_N = different(vectors_ND)
    if len(row_U) <= NEIGHBOURS:
        return leaders(vectors_ND, cosine, advance=advance)
    advance(len(vectors_ND) - len(row_U))
    different_UD = vectors_ND if len(row_U) == len(vectors_ND) else vectors_ND[row_U]
    near = nearest_others(different_UD, NEIGHBOURS, threads=threads, advance=advance)
    leader_U = np.arange(len(row_U))
    for later, earlier in near_pairs(near, margin=margin, cosine=cosine - ROUNDING).tolist():
        if leader_U[later] == later and leader_U[earlier] == earlier:
            leader_U[later] = earlier
    grouped: Firsts = row_U[leader_U][place_N]
    return grouped


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
