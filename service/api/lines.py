"""Splits a body that arrives part by part into lines. Knows bytes; parses nothing."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A line with its number, from 1. content: empty: it is blank; None: it has more bytes than a line may have."""

    number: int
    content: bytes | None


class LineSplitter:
    """The lines of one body; memory for one line and one part. max_bytes: of a line, without its end."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._number = 1
        self._kept = bytearray()
        self._is_too_long = False

    def add(self, part: bytes) -> Iterator[Line]:
        """Yield the lines that end in the next part."""
        start = 0
        while (end := part.find(b"\n", start)) >= 0:
            self._keep(part[start:end])
            yield self._line()
            start = end + 1
        self._keep(part[start:])

    def end(self) -> Iterator[Line]:
        """Yield the last line if no line end follows it."""
        if self._kept or self._is_too_long:
            yield self._line()

    def _keep(self, more: bytes) -> None:
        self._kept += more
        if len(self._kept) > self._max_bytes:
            self._is_too_long, self._kept = True, bytearray()

    def _line(self) -> Line:
        content = None if self._is_too_long else bytes(self._kept) if self._kept.strip() else b""
        line = Line(self._number, content)
        self._number, self._kept, self._is_too_long = self._number + 1, bytearray(), False
        return line
