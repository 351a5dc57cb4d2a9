"""Prints rows on a terminal as a table in columns. Knows display widths; knows nothing of searches."""

import argparse
import json
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence

import orjson

GAP = "  "
ELLIPSIS = "…"
CELL_CHARS = 4000  # of a cell; no terminal shows more in a line
LEAST_CELL = 8  # columns that a cut cell keeps, however narrow the terminal
LEAST_TEXT = 20  # columns beside a label
LEFT_TO_RIGHT = "\u200e"  # the mark that ends right-to-left text, so that the next cell stays in its column
UNSEEN = "\u00ad"  # a soft hyphen: terminals disagree about its width
WITHOUT_WIDTH = {"Mn", "Me", "Cf"}  # combining marks and joiners
JAMO_TAIL = range(0x1160, 0x1200)  # vowels and finals, drawn into the syllable before them
DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # would reorder the rest of the line


def wants_table(options: argparse.Namespace) -> bool:
    """Return whether a person reads standard output: it is a terminal, and `--json` is not given."""
    return not options.json and sys.stdout.isatty()


def print_json(value: object, option: int = 0) -> None:
    """Print a line of JSON; numpy arrays are lists."""
    try:
        line = orjson.dumps(value, option=option | orjson.OPT_SERIALIZE_NUMPY).decode()
    except TypeError:  # a path that is not UTF-8 has surrogates
        line = json.dumps(value)
    sys.stdout.write(line + "\n")


def terminal_columns() -> int:
    """Return the terminal's width; 80 if unknown."""
    return shutil.get_terminal_size().columns


def width_of(text: str) -> int:
    """Return how many columns a line of text takes (Unicode Standard Annex 11)."""
    return sum(map(_char_width, text))


def clipped(text: str, columns: int) -> str:
    """Return the text if it fits, else its beginning and an ellipsis."""
    if width_of(text) <= columns:
        return text
    taken, kept = 1, []
    for char in text:
        taken += _char_width(char)
        if taken > columns:
            break
        kept.append(char)
    return "".join(kept).rstrip() + ELLIPSIS


def one_line(text: str) -> str:
    """Collapse white space, and remove control characters and direction marks, which a terminal would obey."""
    kept = (" " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char for char in text if not _is_dropped(char))
    return " ".join("".join(kept).split())


def described(metadata: Mapping[str, object]) -> str:
    """Return metadata as one cell: `lang=de tags=["music"]`."""
    return " ".join(
        f"{key}={value if isinstance(value, str) else orjson.dumps(value).decode()}" for key, value in metadata.items()
    )


def labelled(label: str, text: str) -> str:
    """Return a text as the terminal's lines, wrapped beside its label."""
    lines = textwrap.wrap(one_line(text), max(terminal_columns() - len(label), LEAST_TEXT)) or [""]
    return f"\n{' ' * len(label)}".join([label + lines[0], *lines[1:]]) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int) -> str:
    """Return the lines of a table at most `columns` wide.

    The first cell of a row is a number, aligned to the right. The last one gets the columns that the others leave;
    each of those gets at most a quarter. A column without a cell is left out.
    """
    cells = [[one_line(cell[:CELL_CHARS]) for cell in row] for row in rows]
    shown = [place for place in range(len(header)) if any(row[place] for row in cells) or place == len(header) - 1]
    *firsts, last = shown
    widths = {}
    for place in firsts:
        widest = max(width_of(row[place]) for row in [header, *cells])
        widths[place] = min(widest, max(LEAST_CELL, columns // 4))
    rest = max(LEAST_CELL, columns - sum(widths.values()) - len(GAP) * len(firsts))
    return "".join(
        GAP.join(
            [*(_padded(row[place], widths[place], is_number=not place) for place in firsts), clipped(row[last], rest)]
        )
        + "\n"
        for row in [header, *cells]
    )


def _padded(cell: str, columns: int, *, is_number: bool) -> str:
    text = clipped(cell, columns)
    if is_number:
        return text.rjust(columns)
    mark = LEFT_TO_RIGHT if any(unicodedata.bidirectional(char) in {"R", "AL"} for char in text) else ""
    return text + mark + " " * (columns - width_of(text))


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in WITHOUT_WIDTH or ord(char) in JAMO_TAIL:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _is_dropped(char: str) -> bool:
    return char == UNSEEN or unicodedata.bidirectional(char) in DIRECTIONS
