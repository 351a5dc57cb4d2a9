"""Estimates the memory of a parsed JSON body from its brackets, quotes and commas, without parsing it.

Three bytes of JSON, `[],`, become a Python object of some sixty bytes: a body of 4 MB can become 90 MB.
"""

import math

MAX_VALUES = 250_000  # 16 to 24 MB of Python objects
# Fitted to the peak memory of a 4 MB body, raw and parsed: text takes 4 times its bytes, numbers of one digit 13 times,
# of three digits 15 times, of five digits 11 times.
BYTE_BYTES = 4
COMMA_BYTES = 48  # per number or short string
VALUE_BYTES = 64
SLICE_BYTES = 64 * 1024
LONG_BYTES = 64 * 1024  # of a body that is not looked through on the event loop: to parse 4 MB may take a second


def values_of(body: bytes) -> int:
    """Return the number of lists, objects and strings (keys too): an upper bound up to `MAX_VALUES`, exact above.

    Numbers are not counted here; `parsed_bytes` charges them by their commas.
    """
    at_most = _values_at_most(body)
    if at_most <= MAX_VALUES:
        return at_most
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes, values = 0, 0
    for start in range(0, len(unescaped), SLICE_BYTES):
        parts = unescaped[start : start + SLICE_BYTES].split(b'"')
        outside = b"".join(parts[quotes % 2 :: 2])  # brackets in a string are text
        values += outside.count(b"[") + outside.count(b"{")
        quotes += len(parts) - 1
    return values + math.ceil(quotes / 2)


def parsed_bytes(body: bytes) -> int:
    """Estimate the bytes of memory a body takes until it is answered; rather too high than too low."""
    return BYTE_BYTES * len(body) + COMMA_BYTES * body.count(b",") + VALUE_BYTES * _values_at_most(body)


def _values_at_most(body: bytes) -> int:
    return body.count(b'"') // 2 + body.count(b"[") + body.count(b"{")
