"""Parses JSON strictly, for requests and files. Knows JSON; knows no schema."""

import codecs
import json
from typing import Any

import orjson

_TO_NINES = bytes.maketrans(b"012345678", b"9" * 9)
_MAYBE_LONG = b"9" * 19  # the shortest whole number beyond 64 bits has 19 digits


def loads(content: bytes) -> Any:
    """The value of JSON: no NaN, no lone surrogates, bounded depth, and every whole number as it is written.

    orjson makes a float of a whole number beyond 64 bits. Where there may be one, Python's parser reads it after orjson
    has found the content right.

    Raises: orjson.JSONDecodeError: it is not JSON, or nested deeper than the parsers read.
    """
    content = content.removeprefix(codecs.BOM_UTF8)  # RFC 8259, section 8.1, lets a parser ignore it
    if _MAYBE_LONG not in content.translate(_TO_NINES):
        return orjson.loads(content)
    orjson.loads(content)
    try:
        return json.loads(content, parse_int=_whole)
    except RecursionError as exc:
        raise orjson.JSONDecodeError("nested too deeply", "", 0) from exc


def _whole(digits: str) -> int:
    return int(digits[:25])  # enough to see that it is beyond 64 bits; Python refuses to read thousands
