"""Embeds every line of a file, for the commands that compare lines.

N lines, D dims
"""

from collections.abc import Iterator

import numpy as np

from service.bulk.engine import Engine
from service.bulk.lines import Lines
from service.bulk.neighbours import Halves
from service.bulk.progress import progress
from service.errors import InferenceFailed, InvalidInput

BATCH_TEXTS = 256


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
