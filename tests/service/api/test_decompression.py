import gzip

import pytest

from service.api.decompression import FREE_BYTES, MAX_MEMBERS, MAX_RATIO, Gunzip, decoder_of
from service.errors import MalformedBody, TooLarge, UnknownEncoding

BODY = b'{"inputs": "hallo"}' * 1000
PACKED = gzip.compress(BODY, mtime=0)


def decoded(packed: bytes, *, part_bytes: int, encoding: str = "gzip") -> bytes:
    decoder = decoder_of(encoding)
    starts = range(0, len(packed), part_bytes)
    body = b"".join(decoder.add(packed[start : start + part_bytes], at_most_bytes=len(BODY) + 1) for start in starts)
    decoder.end()
    return body


@pytest.mark.parametrize("part_bytes", [1, 7, len(PACKED)])
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", " GZip "])
def test_a_gzip_body_is_what_was_compressed_however_it_arrives(part_bytes: int, encoding: str) -> None:
    assert decoded(PACKED, part_bytes=part_bytes, encoding=encoding) == BODY


@pytest.mark.parametrize("part_bytes", [1, 7, len(PACKED) + 3, 10 * len(PACKED)])
def test_members_in_a_row_are_one_body(part_bytes: int) -> None:
    packed = gzip.compress(BODY[:100], mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(BODY[100:], mtime=0)
    assert decoded(packed, part_bytes=part_bytes) == BODY


@pytest.mark.parametrize("first", [b"", gzip.compress(bytes(1000), mtime=0)])
def test_a_bomb_gives_no_more_than_is_asked_for(first: bytes) -> None:
    bomb = first + gzip.compress(bytes(100_000_000), mtime=0)
    assert len(Gunzip().add(bomb, at_most_bytes=1501)) == 1501


def test_endless_members_are_refused() -> None:
    empty = gzip.compress(b"", mtime=0)
    assert decoded(empty * MAX_MEMBERS, part_bytes=100_000) == b""
    with pytest.raises(MalformedBody, match="more than 1000 gzip members"):
        decoded(empty * (MAX_MEMBERS + 1), part_bytes=100_000)


@pytest.mark.parametrize("encoding", ["", "identity"])
def test_a_body_without_compression_is_left_alone(encoding: str) -> None:
    assert decoded(BODY, part_bytes=100, encoding=encoding) == BODY


@pytest.mark.parametrize("part_bytes", [16, 10_000])
def test_a_body_compressed_too_much_is_refused_with_the_ratio(part_bytes: int) -> None:
    packed = gzip.compress(bytes(20_000_000), mtime=0)
    decoder, sizes = Gunzip(), list[int]()

    def read() -> None:
        for start in range(0, len(packed), part_bytes):
            sizes.append(len(decoder.add(packed[start : start + part_bytes], at_most_bytes=4_000_000)))

    with pytest.raises(TooLarge, match="more than 1000000 bytes and 100 times as many; compress it less"):
        read()
    assert sum(sizes) <= FREE_BYTES + MAX_RATIO * part_bytes * len(sizes)


def test_repetitive_lines_and_small_bodies_are_not_too_much() -> None:
    lines = b"".join(b'{"id": "%d", "text": "%s"}\n' % (number, b"same words " * 22) for number in range(40_000))
    packed = gzip.compress(lines, mtime=0)
    assert MAX_RATIO / 2 < len(lines) / len(packed) < MAX_RATIO
    decoder = Gunzip()
    starts = range(0, len(packed), 16 * 1024)
    assert (
        b"".join(decoder.add(packed[start : start + 16 * 1024], at_most_bytes=10_000_000) for start in starts) == lines
    )
    assert len(Gunzip().add(gzip.compress(bytes(FREE_BYTES), mtime=0), at_most_bytes=4_000_000)) == FREE_BYTES


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"hallo",
        PACKED[:-1],
        PACKED[:20],
        PACKED + b"more",
        PACKED + PACKED[:-1],
        PACKED + bytes(8),
        PACKED[:-8] + bytes(8),
    ],
)
def test_what_is_not_whole_gzip_is_refused(packed: bytes) -> None:
    with pytest.raises(MalformedBody):
        decoded(packed, part_bytes=1000)


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip"])
def test_another_encoding_is_refused_with_the_one_that_is_known(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match="send gzip, or an uncompressed body"):
        decoder_of(encoding)
