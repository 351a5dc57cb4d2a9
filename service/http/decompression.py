"""Undoes the compression of request bodies, never further than asked. Knows gzip; knows no HTTP and no limit.

A body of kilobytes may stand for gigabytes, so what comes out is counted as it comes out, not at the end.
"""

import zlib
from typing import Protocol

from service.errors import MalformedBody, UnknownEncoding

MAX_MEMBERS = 1000  # gzip streams in one body: each costs a start of its own, and may stand for nothing


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
    """A body that is gzip: one member, or several in a row, whose contents are joined (RFC 1952, section 2.2)."""

    def __init__(self) -> None:
        self._members = 0
        self._start_member()

    def add(self, part: bytes, *, at_most_bytes: int) -> bytes:
        """The part decompressed, cut."""
        body = b""
        while part and len(body) < at_most_bytes:
            if self._member.eof:
                self._start_member()
            try:
                body += self._member.decompress(part, at_most_bytes - len(body))
            except zlib.error as exc:
                raise MalformedBody("the body is not gzip, as its content-encoding says") from exc
            part = self._member.unused_data
        return body

    def end(self) -> None:
        """Refuse a member that was cut off."""
        if not self._member.eof:
            raise MalformedBody("the body ends within a gzip stream")

    def _start_member(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise MalformedBody(f"the body has more than {MAX_MEMBERS} gzip members; send it as one")
        self._member = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16)  # + 16: gzip's header, not zlib's


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
