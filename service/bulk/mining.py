"""Finds translation pairs between the lines of two files, by margin.

N left lines, M right lines, U and V of different vectors, D dims
"""

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from service.bulk.engine import Engine
from service.bulk.lines import Lines
from service.bulk.margin import Mined, different, mine, ratio_margins
from service.bulk.neighbours import Halves, nearest
from service.bulk.progress import progress
from service.bulk.texts import embed_lines
from service.errors import InvalidInput
from service.process.cpus import usable_cpus
from service.settings import Settings

SEPARATORS = re.compile(
    r"\r\n|[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]"
)  # what readers take for the end of a line or cell


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


def mine_lines(
    left: Lines, right: Lines, engine: Engine, *, k: int, threshold: float, dim: int, settings: Settings
) -> Iterator[bytes]:
    """Yield margin<TAB>left<TAB>right, best first, down to the threshold. Tabs and line ends in texts become spaces."""
    for margin, left_row, right_row in mine_rows(left, right, engine, k=k, dim=dim, settings=settings):
        if margin < threshold:
            return
        texts = (SEPARATORS.sub(" ", lines.text(row)) for lines, row in ((left, left_row), (right, right_row)))
        yield "\t".join([f"{margin:.4f}", *texts]).encode() + b"\n"
