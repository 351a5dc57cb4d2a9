"""Compares the lines of files: translations between two files, and lines of one file that say the same.

Both look at margins: a cosine that is also large beside those with other lines. A cosine alone joins sentences about
one subject ("Sami gave Layla the money", "Sami borrowed money from Layla") before translations.

Of lines that say the same, a group is a line and the later lines near it; a line near several groups joins the
earliest. Every line is near the group's first line, or equal to one that is: chaining from line to line would join
unlike sentences. Their margin compares with the farther half of the nearest lines: the nearer half may say the same in
other languages or words. Lines with equal vectors count once.

N lines or left lines, M right lines, U and V of different vectors, P pairs, D dims
"""

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import orjson

from service.documents.readers.jsonl import Lines
from service.errors import InferenceFailed, InvalidInput
from service.offline.embedding import Engine
from service.offline.margin import Mined, different, mine, near_pairs, ratio_margins
from service.offline.neighbours import ROUNDING, Advance, Halves, leaders, nearest, nearest_others
from service.offline.output import progress
from service.process.cpus import usable_cpus
from service.settings import Settings

# What readers take for the end of a line or cell.
SEPARATORS = re.compile(r"\r\n|[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
BATCH_TEXTS = 256
Firsts = npt.NDArray[np.int64]  # (N,): the first row of each row's group
NEIGHBOURS = 16  # the nearer half may be of a line's group; in a file of fewer lines the cosine alone counts


def mine_lines(
    left: Lines, right: Lines, engine: Engine, *, k: int, threshold: float, dim: int, settings: Settings
) -> Iterator[bytes]:
    """Yield margin<TAB>left<TAB>right, best first, down to the threshold. Tabs and line ends in texts become spaces."""
    for margin, left_row, right_row in mine_rows(left, right, engine, k=k, dim=dim, settings=settings):
        if margin < threshold:
            return
        texts = (SEPARATORS.sub(" ", lines.text(row)) for lines, row in ((left, left_row), (right, right_row)))
        yield "\t".join([f"{margin:.4f}", *texts]).encode() + b"\n"


def mine_rows(left: Lines, right: Lines, engine: Engine, *, k: int, dim: int, settings: Settings) -> list[Mined]:
    """Return (margin, left row, right row), best first.

    Lines of equal vectors count once for the margin, and pair with as many lines of the partner's vector.

    Memory: 2 x (N + M) x dim bytes of vectors, as much again of a file where its lines repeat, and some 200 + 12 x k
    bytes a line.

    Raises: InvalidInput: a file has no line with a text.
    """
    for lines in (left, right):
        if not len(lines):
            raise InvalidInput(f"{lines.path} has no line with a text")
    limit, threads = settings.max_text_chars, settings.workers or usable_cpus()
    left_UD, left_place_N = _different(embed_lines(left, engine, dim=dim, max_text_chars=limit))
    right_VD, right_place_M = _different(embed_lines(right, engine, dim=dim, max_text_chars=limit))
    with progress("neighbours", total=len(left_UD) + len(right_VD), unit="lines") as bar:
        of_left = nearest(left_UD, right_VD, k, threads=threads, advance=bar.update)
        of_right = nearest(right_VD, left_UD, k, threads=threads, advance=bar.update)
    return mine(ratio_margins(of_left, of_right), left_place_N, right_place_M)


def _different(vectors_ND: Halves) -> tuple[Halves, npt.NDArray[np.int64]]:
    """Return the different vectors, and each row's place among them."""
    row_U, place_N = different(vectors_ND)
    return (vectors_ND if len(row_U) == len(vectors_ND) else vectors_ND[row_U]), place_N


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


def embed_lines(lines: Lines, engine: Engine, *, dim: int, max_text_chars: int) -> Halves:
    """Return (N, D) float16, a row for each line with a text. Memory: 2 x N x D bytes.

    Raises: InvalidInput: a line is not UTF-8, or longer than `max_text_chars`.
            InferenceFailed: the model fails on a line.
    """
    vectors_ND = np.empty((len(lines), dim), np.float16)
    stop = 0
    with progress(lines.path.name, total=len(lines), unit="lines") as bar:
        for embedded in engine(_batches(lines, max_text_chars)):
            for position, error in embedded.failed.items():
                raise InferenceFailed(f"{lines.path} line {lines.number(stop + position)}: {error}")
            start, stop = stop, stop + len(embedded.vectors_ND)
            vectors_ND[start:stop] = embedded.vectors_ND
            bar.update(stop - start)
    return vectors_ND


def _batches(lines: Lines, max_text_chars: int) -> Iterator[list[str]]:
    for start in range(0, len(lines), BATCH_TEXTS):
        yield [_text(lines, row, max_text_chars) for row in range(start, min(start + BATCH_TEXTS, len(lines)))]


def _text(lines: Lines, row: int, max_text_chars: int) -> str:
    text = lines.text(row)
    if len(text) > max_text_chars:
        raise InvalidInput(
            f"{lines.path} line {lines.number(row)} has {len(text)} characters; "
            f"the limit is {max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
        )
    return text
