"""How much a body of JSON becomes when it is parsed. Knows JSON's brackets and quotes; parses nothing.

Three bytes of JSON, `[],`, are an object of some sixty bytes in Python: a body of 4 MB can become 90 MB.
"""

import re

MAX_VALUES = 250_000  # 16 to 24 MB of Python objects
# What a body of 4 MB was seen to take at its peak, itself and what it is parsed to: of text 4 times its bytes, of
# numbers with one digit 13 times, with three digits 15, with five 11.
BYTE_BYTES = 4
COMMA_BYTES = 48  # behind a number or a short string
VALUE_BYTES = 64
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # one that does not end goes on to the end


def values_of(body: bytes) -> int:
    """How many lists, objects and strings (keys, too) the body has; exact only where they may be over `MAX_VALUES`.

    Numbers are not counted: there are not many more than commas.
    """
    at_most = _values_at_most(body)
    if at_most <= MAX_VALUES:
        return at_most
    outside, strings = _STRING.subn(b"", body)  # brackets in a string are text
    return strings + outside.count(b"[") + outside.count(b"{")


def parsed_bytes(body: bytes) -> int:
    """About what the body takes in memory until it is answered: rather more than less."""
    return BYTE_BYTES * len(body) + COMMA_BYTES * body.count(b",") + VALUE_BYTES * _values_at_most(body)


def _values_at_most(body: bytes) -> int:
    return body.count(b'"') // 2 + body.count(b"[") + body.count(b"{")
