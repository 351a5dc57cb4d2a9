"""Undoes the compression of request bodies, never further than asked. Knows gzip; knows no HTTP and no limit.

A body of kilobytes may stand for gigabytes, so what comes out is counted as it comes out, not at the end.
"""

import zlib
from typing import Protocol

from service.errors import MalformedBody, UnknownEncoding


class Decoder(Protocol):
    """Turns the parts of a body, as they arrive, into the body that the client meant."""

    def add(self, part: bytes, *, at_most_bytes: int) -> bytes:
        """What the next part stands for, cut at `at_most_bytes`, which is not 0. Call no more after a cut.

        Raises: MalformedBody: it is not what the encoding says.
        """

    def end(self) -> None:
        """Check that the body is whole.

        Raises: MalformedBody: it is not.
        """


class Plain:
    """A body that is sent as it is."""

    def add(self, part: bytes, *, at_most_bytes: int) -> bytes:
        """The part, cut."""
        return part[:at_most_bytes]

    def end(self) -> None:
        """Nothing is known of a whole."""


class Gunzip:
    """A body that is one gzip stream."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16)  # + 16: gzip's header, not zlib's

    def add(self, part: bytes, *, at_most_bytes: int) -> bytes:
        """The part decompressed, cut."""
        try:
            return self._stream.decompress(part, at_most_bytes)
        except zlib.error as exc:
            raise MalformedBody("the body is not gzip, as its content-encoding says") from exc

    def end(self) -> None:
        """Refuse a stream that was cut off, and one that something follows."""
        if not self._stream.eof or self._stream.unused_data:
            raise MalformedBody("the body is not one whole gzip stream")


def decoder_of(content_encoding: str) -> Decoder:
    """What reads a body under this header.

    Raises: UnknownEncoding: it is neither gzip nor nothing.
    """
    encoding = content_encoding.strip().lower()
    if encoding in {"", "identity"}:
        return Plain()
    if encoding in {"gzip", "x-gzip"}:
        return Gunzip()
    raise UnknownEncoding("the body's content-encoding is not known; send gzip, or none")
