"""The texts that a command is given: checked by HTTP's limits, and read from standard input."""

import sys
from collections.abc import Iterator, Sequence

from service.errors import InvalidInput
from service.settings import Settings

UTF16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")  # byte-order marks, as Python decodes bytes that are not UTF-8


def texts_of(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name for errors, text) of each given text, or of each non-blank line of standard input.

    Raises: InvalidInput: standard input is UTF-16.
    """
    if given:
        yield from ((f"text {number}", text) for number, text in enumerate(given, start=1))
        return
    for number, line in enumerate(sys.stdin, start=1):
        if number == 1 and line.startswith(UTF16_MARKS):
            raise InvalidInput("standard input is UTF-16 by its byte-order mark; crosslet reads UTF-8")
        if line.strip():
            yield f"standard input line {number}", line.rstrip("\r\n")


def readable(text: str, name: str, settings: Settings) -> str:
    """Return the text if it is within HTTP's limits and was UTF-8: Python decodes other bytes to lone surrogates.

    Raises: InvalidInput: it is empty, too long or not UTF-8.
    """
    if not text:
        raise InvalidInput(f"{name} is empty; every text needs at least one character")
    if len(text) > settings.max_text_chars:
        raise InvalidInput(
            f"{name} has {len(text)} characters; the limit is {settings.max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
        )
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{name} is not valid UTF-8") from exc
    return text


def readable_query(text: str, settings: Settings) -> str:
    """Return a query that is readable, and has something to look for.

    Raises: InvalidInput: as `readable`, or it has invisible characters alone.
    """
    from service.api.schemas.embed import visible  # here: `crosslet serve` imports the schemas beside the model

    try:
        return visible(readable(text, "the query", settings))
    except ValueError as exc:
        raise InvalidInput(f"the query {exc}") from exc
