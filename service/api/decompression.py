"""Decompresses request bodies (gzip), never further than the caller asks.

Kilobytes may decompress to gigabytes, so the output is counted as it is produced.
"""

import zlib

from service.errors import MalformedBody, TooLarge, UnknownEncoding

MAX_RATIO = 100  # lines of documents compress 5- to 50-fold
FREE_BYTES = 1_000_000  # that any body may decompress to
MAX_MEMBERS = 1000  # gzip members in one body: even an empty one costs set-up time


class Decoder:
    """Decodes a body part by part, as it arrives. This one leaves it as it is."""

    def add(self, part: bytes, *, at_most_bytes: int) -> bytes:
        """Return the next part decoded, cut at `at_most_bytes` (not 0). Do not call again after a cut.

        Raises: MalformedBody: the part is not in the declared encoding.  TooLarge: the body is compressed too much.
        """
        return part[:at_most_bytes]

    def end(self) -> None:
        """Raises: MalformedBody: the body is not complete."""


class Gunzip(Decoder):
    """Decompresses gzip: one member, or several whose contents are joined (RFC 1952, section 2.2)."""

    def __init__(self) -> None:
        self._members = 0
        self._taken_bytes = 0
        self._given_bytes = 0
        self._start_member()

    def add(self, part: bytes, *, at_most_bytes: int) -> bytes:
        """Return the part decompressed, cut."""
        self._taken_bytes += len(part)
        room_bytes = FREE_BYTES + MAX_RATIO * self._taken_bytes - self._given_bytes
        at_most_bytes = min(at_most_bytes, room_bytes + 1)
        body = b""
        while part and len(body) < at_most_bytes:
            if self._member.eof:
                self._start_member()
            try:
                body += self._member.decompress(part, at_most_bytes - len(body))
            except zlib.error as exc:
                raise MalformedBody("the body is not gzip, as its content-encoding says") from exc
            part = self._member.unused_data
        self._given_bytes += len(body)
        if len(body) > room_bytes:
            raise TooLarge(
                f"the first {self._taken_bytes} bytes of the body decompress to more than {FREE_BYTES} bytes and "
                f"{MAX_RATIO} times as many; compress it less, or not at all"
            )
        return body

    def end(self) -> None:
        """Refuse a truncated member."""
        if not self._member.eof:
            raise MalformedBody("the body ends inside a gzip stream")

    def _start_member(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise MalformedBody(f"the body has more than {MAX_MEMBERS} gzip members; compress it as one")
        self._member = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16)  # + 16: gzip's header, not zlib's


def decoder_of(content_encoding: str) -> Decoder:
    """Return the decoder for a content-encoding header; empty: the body is not compressed.

    Raises: UnknownEncoding: the encoding is neither gzip nor identity.
    """
    encoding = content_encoding.strip().lower()
    if encoding in {"", "identity"}:
        return Decoder()
    if encoding in {"gzip", "x-gzip"}:
        return Gunzip()
    raise UnknownEncoding("the body's content-encoding is unknown; send gzip, or an uncompressed body")
