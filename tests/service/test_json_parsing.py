import json
import time
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.json_parsing import loads, not_unicode

HALF = "\ud83d"
PAIR = " has half a surrogate pair, which is no character: send both halves, or U+FFFD in place of one"
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(st.characters(exclude_categories=[]), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"inputs": ["a", f"b{HALF}"]}, "inputs[1]"),
        ({"a": 1, "metadata": {"b c": [{"d": HALF}]}}, 'metadata["b c"][0].d'),
        ({"metadata": {"größe": {"日本": HALF}}}, "metadata.größe.日本"),
        ({"first": {"x": "a"}, "second": [[], [HALF]], "third": HALF}, "second[1][0]"),
        ({"metadata": {f"k{HALF}": 1}}, "a key of metadata"),
        ({HALF: 1}, "a key"),
        (HALF, "the string"),
        ([None, "\ude00\ud83d"], "[1]"),
        ({"k" * 100: HALF}, "k" * 40),
    ],
)
def test_the_place_of_half_a_pair_is_named(value: object, place: str) -> None:
    content = json.dumps(value).encode()
    with pytest.raises(orjson.JSONDecodeError):
        loads(content)
    assert not_unicode(content) == place + PAIR


@pytest.mark.parametrize("bad", [b"\xff", b"T\xfcr", b"\xed\xa0\xbd"])
def test_the_place_of_bytes_beyond_utf8_is_named(bad: bytes) -> None:
    assert not_unicode(b'\xef\xbb\xbf{"filter": {"lang": "%b"}}' % bad) == "filter.lang is not valid UTF-8"
    assert not_unicode(b'{"lang": "%b"}' % bad, root="filter") == "filter.lang is not valid UTF-8"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"a": NaN, "b": "\\ud83d\\ude00"}',
        b'{"a": "\\\\ud83d",}',
        b'{"a": "\\ud83d"',
        b"\xff",
        b"[" * 100_000 + b'"\\ud83d"' + b"]" * 100_000,
        '{"inputs": "a"}'.encode("utf-16"),
        b'["\\ud83d", ' + b"9" * 5000 + b"]",
    ],
)
def test_other_faults_have_no_place(content: bytes) -> None:
    assert not_unicode(content) is None


def test_a_deep_fault_is_named_in_a_short_sentence() -> None:
    assert len(str(not_unicode(b"[" * 900 + b'"\\ud83d"' + b"]" * 900))) < 300


def test_looking_for_a_fault_takes_a_bounded_time() -> None:
    started_s = time.process_time()
    for count in (240_000, 2_000_000):
        not_unicode(b"[" + b"0," * count + b'"\\ud83d"]')
    assert time.process_time() - started_s < 3


def test_looking_for_a_fault_takes_little_memory() -> None:
    content = b'{"%b": [%b"\\ud83d"]}' % (b"k" * 100, b"[]," * 10_000)  # each list has a place of some 50 characters
    tracemalloc.start()
    not_unicode(content)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 100 * 10_000  # 64 for a list, 8 in the list around it


def has_surrogate(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_surrogate, [*value, *value.values()]))
    if isinstance(value, list):
        return any(map(has_surrogate, value))
    return isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value)


@given(VALUES)
def test_a_place_is_named_exactly_where_there_is_one(value: object) -> None:
    content = json.dumps(value).encode()
    assert (not_unicode(content) is not None) == has_surrogate(json.loads(content))
