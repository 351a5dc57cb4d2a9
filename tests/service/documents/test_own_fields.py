"""Templates and kept fields; the oracle is the path table that filters use."""

import unicodedata
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.filters import fields_of
from service.documents.own_fields import (
    MAX_FIELDS,
    MAX_NAME_CHARS,
    MAX_TEMPLATE_CHARS,
    MAX_TEMPLATE_FIELDS,
    OwnFields,
)
from service.errors import InvalidInput

NAMES = st.sampled_from(["a", "b", "a.b", "é", "标题", "العنوان", "शीर्षक", "b.é", ""])
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=5)


def text_of(template: str, document: dict[str, Any], *, max_chars: int = 1000) -> str:
    return OwnFields.parsed(template, None).text_of(document, max_chars=max_chars)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{title}. {price} EUR", "Kettle. 19.9 EUR"),
        ("{title}{missing}{nothing}", "Kettle"),
        ("{missing} {title} ", "Kettle"),
        ("{tags}", "red, 2, true"),
        ("{in_stock} {count} {whole}", "false 12 2.0"),
        ("{source.site}: {source.page}", "x.de: 3"),
        ("{parts.name}", "lid, handle"),
        ("{a.b}", "the key with a dot"),
        ("{id}", "7"),
        ("{{title}} {title} {{{title}}}", "{title} Kettle {Kettle}"),
        ("{title}\n{title}", "Kettle\nKettle"),
        ("{标题} {العنوان} {शीर्षक}", "水壶 غلاية केतली"),
        ("{caf\u00e9}", "au lait"),
    ],
)
def test_a_template_names_fields_in_braces(template: str, text: str) -> None:
    document = {
        "id": 7,
        "title": "Kettle",
        "price": 19.9,
        "nothing": None,
        "tags": ["red", None, "", 2, True],
        "in_stock": False,
        "count": 12,
        "whole": 2.0,
        "source": {"site": "x.de", "page": 3},
        "parts": [{"name": "lid"}, "none", {"name": ["handle"]}, {"size": 1}],
        "a.b": "the key with a dot",
        "a": {"b": "the field in a field"},
        "标题": "水壶",
        "العنوان": "غلاية",
        "शीर्षक": "केतली",
        "cafe\u0301": "au lait",
    }
    assert text_of(template, document) == text


@pytest.mark.parametrize(
    ("template", "fields", "message"),
    [
        (None, ["price"], "fields needs text beside it"),
        ("", None, "text names no field"),
        ("no field, {{braces}}", None, "text names no field"),
        ("{title", None, "text has a { at character 1 that belongs to no field"),
        ("{title}}", None, "text has a } at character 8"),
        ("{}", None, "text has a { at character 1"),
        ("{a{b}}", None, "text has a { at character 1"),
        (
            "{a}" * MAX_TEMPLATE_CHARS,
            None,
            "text has 6000 characters; the limit of a template is 2000",
        ),
        ("{a}" * (MAX_TEMPLATE_FIELDS + 1), None, f"text uses 33 fields; the limit is {MAX_TEMPLATE_FIELDS}"),
        (
            "{" + "a" * (MAX_NAME_CHARS + 1) + "}",
            None,
            "text names a field of 201 characters; the limits are",
        ),
        ("{a}", [""], "fields names a field of 0 characters"),
        ("{a}", ["b", "b"], "fields names 'b' twice"),
        ("{a}", ["id"], "fields names 'id', which is always kept"),
        ("{a}", ["vector"], "fields names 'vector', which is left out"),
        ("{passages}", None, "text names 'passages', which is left out"),
        ("{a}", [str(n) for n in range(MAX_FIELDS + 1)], f"fields has 101 names; the limit is {MAX_FIELDS}"),
        ("{a}\udcff", None, "text is no valid Unicode"),
        ("{a}", ["\udcff"], "fields is no valid Unicode"),
    ],
)
def test_malformed_settings_are_refused(template: str | None, fields: list[str] | None, message: str) -> None:
    with pytest.raises(InvalidInput, match="^" + message.replace("{", r"\{").replace("}", r"\}")):
        OwnFields.parsed(template, fields)


@pytest.mark.parametrize(
    ("template", "document", "message"),
    [
        (
            "{titel}",
            {"title": "x", "name": "y", "price": 1},
            "there is no text: 'titel' is missing or empty; "
            "the document has 'title', 'name', 'price'; did you mean title?",
        ),
        ("{a} {b}", {"id": "1", "a": " ", "b": []}, "'a', 'b' are missing or empty; the document has 'a', 'b'"),
        ("{a}", {"id": "1"}, "the document has no fields"),
        ("{a}", {"a": {"x": 1, "y": 2}}, "the text uses 'a', which is an object here; it may use 'a.x'"),
        ("{a}", {"a": [["x"]]}, "the text uses 'a', which is a list of lists here"),
        (
            "{a}{a}",
            {"a": "x" * 501},
            "the text would have 1002 characters; the limit is 1000 (CROSSLET_MAX_",
        ),
    ],
)
def test_documents_without_text_are_refused(template: str, document: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        text_of(template, document)
    assert message in str(refusal.value)
    assert not any(f"did you mean {name}?" in str(refusal.value) for name in ("a", "b"))  # which is there


def test_repeated_long_fields_are_refused_before_the_join() -> None:
    with pytest.raises(InvalidInput, match="would have 320000000 characters"):
        text_of("{a}" * MAX_TEMPLATE_FIELDS, {"a": "x" * 10_000_000})


def test_named_fields_and_those_of_the_text_are_kept() -> None:
    own = OwnFields.parsed("{title}: {maker.name}", ["price", "caf\u00e9", "parts.size", "x.y"])
    document = {
        "id": "1",
        "price": [1, 2],
        "secret": "s",
        "maker": {"name": "Ö", "vat": "DE1"},
        "parts": [{"size": 1, "cost": 2}, 5, {"cost": 3}],
        "title": None,
        "cafe\u0301": 1,
        "x": 5,
        "vector": [0.1],
    }
    kept = {"price": [1, 2], "maker": {"name": "Ö"}, "parts": [{"size": 1}], "title": None, "cafe\u0301": 1}
    assert own.kept(document) == kept
    assert list(own.kept(document)) == ["price", "maker", "parts", "title", "cafe\u0301"]


def test_without_fields_all_are_kept_but_id_and_vectors() -> None:
    document = {"id": "1", "title": "x", "metadata": {"a": 1}, "vector": [0.1], "passages": []}
    assert OwnFields.parsed("{title}", None).kept(document) == {"title": "x", "metadata": {"a": 1}}


@given(DOCUMENTS, st.sampled_from(["a", "b", "a.b", "é", "标题.a", "a.b.é", "b.é", "a.é.b"]))
def test_a_path_leads_where_filters_find_it(document: dict[str, Any], path: str) -> None:
    scalars = {(kind, value) for kind, value in fields_of(document).get(path, set()) if kind not in {"null", "other"}}
    expected = {
        value if kind == "string" else orjson.dumps(bool(value) if kind == "boolean" else value).decode()
        for kind, value in scalars
    }
    try:
        text = text_of(f"{{{path}}}", document, max_chars=10_000)
    except InvalidInput as exc:
        if "there is no text" in str(exc):
            assert not any(str(value).strip() for value in expected)
        return
    assert all(str(value).strip() in unicodedata.normalize("NFC", text) for value in expected)
    assert text_of(f"{{{path}}}", decomposed(document), max_chars=10_000) == text


def decomposed(value: Any) -> Any:
    """A value whose keys are spelled with accents apart."""
    if isinstance(value, dict):
        return {unicodedata.normalize("NFD", key): decomposed(inner) for key, inner in value.items()}
    return [decomposed(inner) for inner in value] if isinstance(value, list) else value


@given(DOCUMENTS, st.lists(st.sampled_from(["a", "b", "a.b", "é", "标题", "a.a.b"]), unique=True, max_size=4))
def test_the_text_of_kept_fields_is_that_of_all(document: dict[str, Any], fields: list[str]) -> None:
    own = OwnFields.parsed("{a.b} {é} {b}", fields)
    try:
        text = own.text_of(document, max_chars=10_000)
    except InvalidInput:
        return
    assert own.text_of(own.kept(document), max_chars=10_000) == text
    assert own.kept(own.kept(document)) == own.kept(document)
