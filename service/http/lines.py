"""Splits a body that arrives part by part into lines. Knows bytes; parses nothing."""

from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A line with its number, from 1. content: None: it has more bytes than a line may have."""

    number: int
    content: bytes | None


async def lines_of(parts: AsyncIterator[bytes], *, max_bytes: int) -> AsyncIterator[Line]:
    """Yield every line that is not blank; memory for one line and one part. max_bytes: of a line, without its end."""
    number, kept, is_too_long = 1, bytearray(), False
    async for part in parts:
        *ended, rest = part.split(b"\n")
        for end in ended:
            kept += end
            if line := _line(number, kept, is_too_long=is_too_long or len(kept) > max_bytes):
                yield line
            number, kept, is_too_long = number + 1, bytearray(), False
        kept += rest
        if len(kept) > max_bytes:
            is_too_long, kept = True, bytearray()
    if line := _line(number, kept, is_too_long=is_too_long):
        yield line


def _line(number: int, content: bytearray, *, is_too_long: bool) -> Line | None:
    if is_too_long:
        return Line(number, None)
    return Line(number, bytes(content)) if content.strip() else None
