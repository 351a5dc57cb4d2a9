"""Parses JSON strictly, for requests and files."""

import codecs
import json
from typing import Any

import orjson

_TO_NINES = bytes.maketrans(b"012345678", b"9" * 9)
_MAYBE_LONG = b"9" * 19  # the shortest whole number beyond 64 bits has 19 digits


def loads(content: bytes) -> Any:
    """Parse JSON: no NaN, no lone surrogates, bounded depth, and no integer turned into a float.

    orjson converts integers beyond 64 bits to floats. If there may be one, orjson only validates and Python's parser
    reads the content.

    Raises: orjson.JSONDecodeError: it is not JSON, or nested too deeply.
    """
    content = content.removeprefix(codecs.BOM_UTF8)  # RFC 8259, section 8.1, allows it
    if _MAYBE_LONG not in content.translate(_TO_NINES):
        return orjson.loads(content)
    orjson.loads(content)
    try:
        return json.loads(content, parse_int=_whole)
    except RecursionError as exc:
        raise orjson.JSONDecodeError("nested too deeply", "", 0) from exc


def _whole(digits: str) -> int:
    return int(digits[:25])  # 25 digits show that it is beyond 64 bits; Python refuses to parse thousands
