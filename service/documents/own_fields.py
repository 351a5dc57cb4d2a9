"""Documents with their own fields: which of them are kept as metadata, and the text that a template makes of them.

A field is named as filters name it: keys joined by dots, through objects and lists of objects. A key that has the dots
itself goes first.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Self

import orjson

from service.documents.filters import comparable
from service.errors import Conflict, InvalidInput
from service.spelling import did_you_mean

MAX_TEMPLATE_CHARS = 2000
MAX_TEMPLATE_FIELDS = 32  # with repeats: a text has no more times the characters of its document
MAX_FIELDS = 100  # kept by name
MAX_NAME_CHARS = 200
EXPORTED = {"vector", "passages"}  # written by `export --vectors`, left out here: the model computes the vectors
SHOWN_FIELDS, SHOWN_CHARS = 20, 100  # in a message

PIECE = re.compile(r"\{\{|\}\}|\{(?P<field>[^{}]+)\}|[^{}]+|(?P<stray>[{}])")
SURROGATE = re.compile("[\ud800-\udfff]")  # of a command's argument that is not UTF-8
Values = list[object]


@dataclass(frozen=True)
class OwnFields:
    """What a collection takes of documents with their own fields. Make one by `parsed`.

    text: the template of the text: {title} is the field's value, {{ and }} are braces.
    fields: those kept as metadata beside the template's; None: all.
    """

    text: str
    fields: tuple[str, ...] | None = None

    @classmethod
    def parsed(cls, text: str | None, fields: Sequence[str] | None) -> Self:
        """Check a template and the fields to keep.

        Raises: InvalidInput: a limit is passed, a brace names no field, or a name cannot be one.
        """
        if text is None:
            raise InvalidInput(
                'fields needs text beside it: what is embedded, as in {"text": "{title}. {description}"}'
            )
        if len(text) > MAX_TEMPLATE_CHARS:
            raise InvalidInput(f"text has {len(text)} characters; the limit of a template is {MAX_TEMPLATE_CHARS}")
        if fields is not None and len(fields) > MAX_FIELDS:
            raise InvalidInput(f"fields has {len(fields)} names; the limit is {MAX_FIELDS}: null keeps all fields")
        for where, given in (("text", text), ("fields", "".join(fields or ()))):
            if SURROGATE.search(given):
                raise InvalidInput(f"{where} is no valid Unicode")
        stray = next((piece for piece in PIECE.finditer(text) if piece["stray"]), None)
        if stray is not None:
            raise InvalidInput(
                f"text has a {stray['stray']} at character {stray.start() + 1} that belongs to no field: a field is "
                "{title}, a brace {{ or }}"
            )
        own = cls(text, None if fields is None else tuple(fields))
        if not own.paths:
            raise InvalidInput('text names no field of the documents; put one in braces, as in "{title}"')
        used = sum(piece["field"] is not None for piece in PIECE.finditer(text))
        if used > MAX_TEMPLATE_FIELDS:
            raise InvalidInput(f"text uses {used} fields; the limit is {MAX_TEMPLATE_FIELDS}")
        for where, names in (("text", own.paths), ("fields", own.fields or ())):
            _check_names(where, names)
        return own

    @cached_property
    def paths(self) -> list[str]:
        """The fields that the text uses, each once, as filters compare them."""
        return list(dict.fromkeys(comparable(piece["field"]) for piece in PIECE.finditer(self.text) if piece["field"]))

    @cached_property
    def _wanted(self) -> frozenset[str]:
        return frozenset([*self.paths, *map(comparable, self.fields or ())])

    def kept(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is kept of a document's own fields as metadata."""
        own = {name: value for name, value in document.items() if name != "id" and name not in EXPORTED}
        return own if self.fields is None else _selected(own, self._wanted)

    def text_of(self, document: Mapping[str, Any], *, max_chars: int) -> str:
        """Return a document's text. A missing field and null are empty; a list is joined by commas.

        Raises: InvalidInput: all its fields are empty, one is an object, or the text is too long.
        """
        top = _by_spelling(document)
        values = {
            path: ", ".join(text for value in _values_at(top, path) or [] if (text := _spelled(path, value)))
            for path in self.paths
        }
        if not any(value.strip() for value in values.values()):
            names = [name for name in document if name != "id"]
            others = [name for name in names[:SHOWN_FIELDS] if comparable(name) not in self.paths]
            raise InvalidInput(
                f"there is no text: {listed(self.paths)} {'is' if len(self.paths) == 1 else 'are'} missing or empty; "
                f"the document has {listed(names) or 'no fields'}{did_you_mean(self.paths[0], others)}"
            )
        pieces = [
            values[comparable(piece["field"])] if piece["field"] else {"{{": "{", "}}": "}"}.get(piece[0], piece[0])
            for piece in PIECE.finditer(self.text)
        ]
        if (chars := sum(map(len, pieces))) > max_chars:
            raise InvalidInput(
                f"the text would have {chars} characters; the limit is {max_chars} (CROSSLET_MAX_TEXT_CHARS)"
            )
        return "".join(pieces).strip()


def configured_late(documents: int) -> Conflict:
    """Return the refusal to configure a collection that has documents."""
    return Conflict(
        f"text and fields are set while a collection is empty; it has {documents} documents: load them into another "
        "collection, or delete them first"
    )


def listed(names: Sequence[str]) -> str:
    """Return the names of fields or columns for a message."""
    more = f" and {len(names) - SHOWN_FIELDS} more" if len(names) > SHOWN_FIELDS else ""
    return ", ".join(repr(name[:SHOWN_CHARS]) for name in names[:SHOWN_FIELDS]) + more


def first_keys(path: str) -> Iterator[str]:
    """Yield the keys that a path may begin with: itself, then what is before each dot, the longest first."""
    yield path
    while (dot := path.rfind(".")) >= 0:
        path = path[:dot]
        yield path


def _check_names(where: str, names: Sequence[str]) -> None:
    for name in names:
        if not 1 <= len(name) <= MAX_NAME_CHARS:
            raise InvalidInput(
                f"{where} names a field of {len(name)} characters; the limits are 1 and {MAX_NAME_CHARS}"
            )
        if name in EXPORTED:
            raise InvalidInput(f"{where} names {name!r}, which is left out of documents: exports write vectors there")
    if where == "fields":
        if "id" in names:
            raise InvalidInput("fields names 'id', which is always kept; leave it out")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidInput(f"fields names {twice!r} twice")


def _by_spelling(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object's values by its keys as filters compare them."""
    return fields if all(map(str.isascii, fields)) else {comparable(key): value for key, value in fields.items()}


def _values_at(fields: Mapping[str, Any], path: str) -> Values | None:
    """Return the elements that a path leads to; None: it leads nowhere. fields: by spelling."""
    for key in first_keys(path):
        if key not in fields:
            continue
        elements = fields[key] if isinstance(fields[key], list) else [fields[key]]
        if key == path:
            return elements
        objects = [element for element in elements if isinstance(element, dict)]
        values = [_values_at(_by_spelling(inner), path[len(key) + 1 :]) for inner in objects]
        if any(value is not None for value in values):
            return [element for value in values for element in value or []]
    return None


def _spelled(path: str, value: object) -> str:
    """Return a scalar as JSON writes it, a string as it is."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dict):
        inner = listed([f"{path}.{key}" for key in islice(value, SHOWN_FIELDS)])
        raise InvalidInput(f"the text uses {path!r}, which is an object here; it may use {inner or 'no field of it'}")
    if isinstance(value, list):
        raise InvalidInput(f"the text uses {path!r}, which is a list of lists here; flatten it")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else orjson.dumps(value).decode()


def _selected(fields: Mapping[str, Any], paths: frozenset[str]) -> dict[str, Any]:
    """Return the fields at some paths, nested ones in their objects and lists, in the document's order."""
    steps, selected = _steps(paths), {}
    for key, value in fields.items():
        rests = steps.get(comparable(key))
        if rests is None:
            continue
        if None in rests:
            selected[key] = value
            continue
        inner_paths = frozenset(rest for rest in rests if rest is not None)
        if isinstance(value, dict):
            inner: Any = _selected(value, inner_paths)
        elif isinstance(value, list):
            objects = [_selected(element, inner_paths) for element in value if isinstance(element, dict)]
            inner = [element for element in objects if element]
        else:
            continue
        if inner:
            selected[key] = inner
    return selected


@lru_cache(maxsize=1024)
def _steps(paths: frozenset[str]) -> dict[str, set[str | None]]:
    """Return the keys that paths may begin with, each with what may follow. None: nothing, the value is kept whole."""
    steps: dict[str, set[str | None]] = {}
    for path in paths:
        for key in first_keys(path):
            steps.setdefault(key, set()).add(None if key == path else path[len(key) + 1 :])
    return steps
