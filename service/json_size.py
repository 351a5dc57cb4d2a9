"""How much a body of JSON becomes when it is parsed. Knows JSON's brackets and quotes; parses nothing.

Three bytes of JSON, `[],`, are an object of some sixty bytes in Python: a body of 4 MB can become 90 MB.
"""

import re

MAX_VALUES = 250_000  # 16 to 24 MB of Python objects
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # one that does not end goes on to the end


def values_of(body: bytes) -> int:
    """How many lists, objects and strings (keys, too) the body has; exact only where they may be over `MAX_VALUES`.

    Numbers are not counted: each takes at most fourteen times its bytes.
    """
    at_most = body.count(b'"') // 2 + body.count(b"[") + body.count(b"{")
    if at_most <= MAX_VALUES:
        return at_most
    outside, strings = _STRING.subn(b"", body)  # brackets in a string are text
    return strings + outside.count(b"[") + outside.count(b"{")
