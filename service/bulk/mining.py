"""Finds translation pairs between the lines of two files, by margin."""

import re
from collections.abc import Iterator

from service.bulk.engine import Engine
from service.bulk.lines import Lines
from service.bulk.margin import Mined, mine, ratio_margins
from service.bulk.neighbours import nearest
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

    Memory: 2 x (N + M) x dim bytes of vectors, and 12 x k bytes a line.

    Raises: InvalidInput: a file has no line with a text.
    """
    for lines in (left, right):
        if not len(lines):
            raise InvalidInput(f"{lines.path} has no line with a text")
    limit, threads = settings.max_text_chars, settings.workers or usable_cpus()
    left_ND = embed_lines(left, engine, dim=dim, max_text_chars=limit)
    right_MD = embed_lines(right, engine, dim=dim, max_text_chars=limit)
    with progress("neighbours", total=len(left) + len(right), unit="lines") as bar:
        of_left = nearest(left_ND, right_MD, k, threads=threads, advance=bar.update)
        of_right = nearest(right_MD, left_ND, k, threads=threads, advance=bar.update)
    return mine(ratio_margins(of_left, of_right))


def mine_lines(
    left: Lines, right: Lines, engine: Engine, *, k: int, threshold: float, dim: int, settings: Settings
) -> Iterator[bytes]:
    """Yield margin<TAB>left<TAB>right, best first, down to the threshold. Tabs and line ends in texts become spaces."""
    for margin, left_row, right_row in mine_rows(left, right, engine, k=k, dim=dim, settings=settings):
        if margin < threshold:
            return
        texts = (SEPARATORS.sub(" ", lines.text(row)) for lines, row in ((left, left_row), (right, right_row)))
        yield "\t".join([f"{margin:.4f}", *texts]).encode() + b"\n"
