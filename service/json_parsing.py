"""Parses JSON strictly, for requests and files."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

WHOLE_CHARS = 25  # that are read of a whole number; as many show that it is beyond 64 bits
_TO_NINES = bytes.maketrans(b"012345678", b"9" * 9)
_MAYBE_LONG = b"9" * 19  # the shortest whole number beyond 64 bits has 19 digits
_HALF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_KEY, _LONGEST_PLACE = 40, 120  # characters in an error message
_MOST_COMMAS = 250_000  # looking for a fault takes 0.4 µs a value, on the event loop


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


def is_utf8(content: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def not_unicode(content: bytes, *, root: str = "") -> str | None:
    """Return a sentence that names the string of refused JSON that is no Unicode; None: the fault is another.

    root: prefix of the string's place, such as the name of the parameter that holds the JSON.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    if content.count(b",") > _MOST_COMMAS:
        return None
    try:
        text = content.decode()
        if not _HALF_A_PAIR.search(content):
            return None
        fault = "has half a surrogate pair, which is no character: send both halves, or U+FFFD in place of one"
    except UnicodeDecodeError:
        text, fault = content.decode(errors="surrogateescape"), "is not valid UTF-8"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    place = _place_of_surrogate(value, root)
    return None if place is None else f"{place} {fault}"


def _place_of_surrogate(value: object, root: str) -> str | None:
    """Return where the first lone surrogate is. Deep values must not exhaust Python's stack, nor wide ones memory."""
    waiting = [_suspects({"": value}, root)]
    while waiting:
        place, child = next(waiting[-1], (root, None))
        if child is None:
            waiting.pop()
        elif isinstance(child, str):
            return place or "the string"
        elif isinstance(child, dict) and any(map(_SURROGATE.search, child)):
            return f"a key of {place}" if place else "a key"
        else:
            waiting.append(_suspects(child, place))
    return None


def _suspects(container: dict[str, Any] | list[Any], place: str) -> Iterator[tuple[str, Any]]:
    """Yield each list, object and string with a surrogate in a list or object, with its place."""
    for key, child in enumerate(container) if isinstance(container, list) else container.items():
        if isinstance(child, dict | list) or (isinstance(child, str) and _SURROGATE.search(child)):
            yield f"{place}{_step(key, is_first=not place)}"[:_LONGEST_PLACE], child


def _step(key: str | int, *, is_first: bool) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    short = key[:_LONGEST_KEY]
    if short and not short.isidentifier():
        return f"[{json.dumps(short, ensure_ascii=False)}]"
    return short if is_first or not short else f".{short}"


def _whole(digits: str) -> int:
    return int(digits[:WHOLE_CHARS])  # Python refuses to parse thousands
