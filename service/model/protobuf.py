"""Reads places of values in protobuf's wire format, without descriptions and without copying a file.

Each is checked to lie in its message: what a parser would read elsewhere must not be overlooked.
"""

from collections.abc import Iterator
from mmap import mmap

# Wire types: the low bits of a field's key.
VARINT, LENGTH_FIRST, FIXED_BYTES = 0, 2, {1: 8, 5: 4}

Place = tuple[int, int]  # start and end of a value in the file


def fields(file: mmap, message: Place) -> Iterator[tuple[int, Place]]:
    """Yield the number of each field of a message with the place of its value, in order.

    Raises: ValueError: it is no message.
    """
    start, stop = message
    while start < stop:
        key, start = varint(file, start)
        kind = key & 7
        if kind == LENGTH_FIRST:
            size, start = varint(file, start)
        elif kind == VARINT:
            size = varint(file, start)[1] - start
        elif kind in FIXED_BYTES:
            size = FIXED_BYTES[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if start + size > stop:
            raise ValueError("a value is cut off")
        yield key >> 3, (start, start + size)
        start += size


def values(file: mmap, message: Place, wanted: int) -> Iterator[Place]:
    """Yield the places of one field's values in a message, in order."""
    return (place for number, place in fields(file, message) if number == wanted)


def varint(file: mmap, start: int) -> tuple[int, int]:
    """Read a varint (groups of 7 bits, the lowest first). Return the number and its end.

    Raises: ValueError: it does not end.
    """
    number = 0
    for place in range(start, min(start + 10, len(file))):
        byte = file[place]
        number |= (byte & 127) << 7 * (place - start)
        if byte < 128:
            return number, place + 1
    raise ValueError("a number does not end")
