"""The JSON of documents and their counts, field by field. Limits that are settings are checked by the routes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from service.api.schemas.embed import GUITAR, Flag, Listed, Strict, described, first_fault, optional, whole_example
from service.documents.filters import inexact
from service.documents.own_fields import OwnFields, listed
from service.errors import InvalidInput
from service.json_parsing import WHOLE_CHARS

FILTER_EXAMPLES = [
    {"lang": "de"},
    {"source.site": {"ne": "x"}},
    {"and": [{"year": {"gte": 2020, "lt": 2024}}, {"tag": {"in": ["a", "b"]}}]},
]
MAX_METADATA_DEPTH = 240  # orjson writes 254 levels, and an answer wraps metadata in a few
CONTAINERS = (dict, list, tuple)  # Parquet maps have tuples
MAX_PATH_CHARS = 100_000  # the store repeats the path for each value, so that filters can look it up


def _storable(metadata: dict[str, Any]) -> dict[str, Any]:
    depth = sum(1 for _ in _levels(metadata))
    if depth > MAX_METADATA_DEPTH:
        raise ValueError(f"nested too deeply: {depth} levels; the limit is {MAX_METADATA_DEPTH}")
    chars = _path_chars(metadata)
    if chars > MAX_PATH_CHARS:
        raise ValueError(
            f"the paths to each nested value and each element of its lists have {chars} characters; the limit is "
            f"{MAX_PATH_CHARS}: use shorter keys or fewer values"
        )
    faults = (fault for level in _levels(metadata) for value in level if (fault := inexact(value)) is not None)
    if (fault := next(faults, None)) is not None:
        raise ValueError(fault)
    return metadata


def _path_chars(metadata: dict[str, Any]) -> int:
    """Count the characters of paths to nested values and list elements; top-level keys of scalars count nothing."""
    chars, level = 0, [(0, metadata)]
    while level:
        inner: list[tuple[int, dict[str, Any]]] = []
        for before, one in level:
            for key, value in one.items():
                elements = value if isinstance(value, list) else [value]
                path = before + len(key)
                chars += path * len(elements) if before or isinstance(value, list) else 0
                inner += [(path + 1, element) for element in elements if isinstance(element, dict)]
        level = inner
    return chars


def _levels(value: object) -> Iterator[list[object]]:
    """The values in objects and lists, level by level: deep values must not exhaust Python's stack."""
    level = [value]
    while containers := [one for one in level if isinstance(one, CONTAINERS)]:
        level = [inner for one in containers for inner in (one.values() if isinstance(one, dict) else one)]
        yield level


Metadata = Annotated[dict[str, Any], AfterValidator(_storable)]
# httpx, requests, curl and browsers remove these from URLs, some also if a dot is written %2E, browsers also between
# backslashes. tests/contract/test_document_ids.py tries the clients.
DOT_SEGMENT = re.compile(r"(?:\A|[/\\])(?:\.|%2e){1,2}(?:[/\\]|\Z)", re.IGNORECASE)


def _survives_a_url(id_: str) -> str:
    if DOT_SEGMENT.search(id_):
        raise ValueError(
            "a part between slashes is '.' or '..' (%2E is a dot, too): clients remove it from URLs, which then name "
            "another document; send an id without such parts"
        )
    return id_


# No control characters: ids appear in URLs, logs and terminals.
DocumentId = Annotated[
    str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$"), AfterValidator(_survives_a_url)
]


class DocumentIn(Strict):
    """A document to store and search."""

    id: DocumentId = described(
        "Its name; putting the same id again replaces the document. No part between slashes may be . or ..", "de/1"
    )
    text: str = described("The text that is embedded and found.", GUITAR[1], min_length=1)
    metadata: Metadata = described(
        "Any JSON object. Filters can use strings, numbers, booleans, null and lists of them; nested ones "
        "by their path.",
        {"lang": "de", "year": 2021, "tags": ["music"]},
        default_factory=dict,
    )


def checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata that can be stored. Raises: InvalidInput: they cannot."""
    try:
        return _storable(metadata)
    except ValueError as exc:
        raise InvalidInput(f"metadata: {exc}") from exc


DOCUMENT_ID = TypeAdapter(DocumentId)


def document_in(fields: object, *, max_text_chars: int, own_fields: OwnFields | None = None) -> DocumentIn:
    """Return the document that a line of a file or body holds.

    own_fields: what the collection takes of documents with their own fields; None: they have id, text and metadata.

    Raises: InvalidInput: it is none; the message names the field and the rule, never the value.
    """
    if not isinstance(fields, dict):
        raise InvalidInput("not a JSON object")
    if own_fields is not None:
        return _own_document(fields, own_fields, max_text_chars)
    try:
        document = DocumentIn.model_validate(fields)
    except ValidationError as exc:
        raise InvalidInput(first_fault(exc)) from exc
    if len(document.text) > max_text_chars:
        raise InvalidInput(
            f"text: has {len(document.text)} characters; the limit is {max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
        )
    return document


def _own_document(fields: dict[str, Any], own_fields: OwnFields, max_text_chars: int) -> DocumentIn:
    id_ = fields.get("id")
    if id_ is None:
        raise InvalidInput(f"id: Field required; the document has {listed(list(fields)) or 'no fields'}")
    if type(id_) is int:
        id_ = str(id_)
        if len(id_) >= WHOLE_CHARS:
            raise InvalidInput(f"id: a whole number of more than {WHOLE_CHARS - 1} characters; send it as a string")
    try:
        id_ = DOCUMENT_ID.validate_python(id_)
    except ValidationError as exc:
        raise InvalidInput(f"id: {first_fault(exc)}") from exc
    metadata = checked_metadata(own_fields.kept(fields))
    text = own_fields.text_of(fields, max_chars=max_text_chars)
    return DocumentIn.model_construct(id=id_, text=text, metadata=metadata)


class OrOwnFields:
    """Says in OpenAPI that a document may have its own fields."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        own = {
            "title": "OwnDocument",
            "description": "A document with its own fields, in a collection with `text`. An id may be a whole number.",
            "type": "object",
            "properties": {"id": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
            "required": ["id"],
            "additionalProperties": True,
        }
        return {"anyOf": [handler(schema), own]}


class PutDocumentsRequest(Strict):
    """Documents to insert or replace."""

    documents: Listed[Annotated[DocumentIn, OrOwnFields()]] = described(
        "Each id at most once.", [{"id": "de/1", "text": GUITAR[1], "metadata": {"lang": "de"}}]
    )
    chunk: Flag | None = optional(
        "Whether a document longer than the model reads is split into passages, each with a vector; false: "
        "its beginning alone is embedded; default: as CROSSLET_CHUNK says.",
        True,
    )
    _own: list[object] = PrivateAttr(default_factory=list)
    _refusal: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @model_validator(mode="wrap")
    @classmethod
    def _may_have_own_fields(cls, given: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Keep documents that are refused: the route knows whether the collection takes their own fields."""
        try:
            return handler(given)
        except ValidationError as exc:
            if not isinstance(given, dict) or not isinstance(documents := given.get("documents"), list):
                raise
            with suppress(ValidationError):
                kept = handler(given | {"documents": []})
                kept._own, kept._refusal = documents, [dict(error) for error in exc.errors(include_url=False)]
                return kept
            raise

    @property
    def refusal(self) -> list[dict[str, Any]]:
        """Pydantic's errors of documents that do not have id, text and metadata."""
        return self._refusal

    @property
    def own(self) -> Sequence[object]:
        """The documents with their own fields, as they were sent."""
        return self._own or [
            {name: getattr(document, name) for name in DocumentIn.model_fields if name in document.model_fields_set}
            for document in self.documents
        ]


class FailedDocument(BaseModel):
    """A document that was not stored because the model failed on its text."""

    id: str = described("Its name.", "de/2")
    error: str = described("Why.", "the model failed on a text of 9 tokens")


class LineError(BaseModel):
    """A line of a body that was not stored."""

    line: int = described("Its number, from 1.", 3)
    error: str = described("Why.", "text: Field required")


class PutDocumentsResponse(BaseModel):
    """Sent once the documents are on disk and searchable. Some fields are only of bodies with a document a line."""

    upserted: int = described("Number of documents inserted or replaced.", 1)
    revision: int | None = described(
        "The number of this change; later changes have larger ones. null: nothing was to change.", 7
    )
    truncated: list[str] = described(
        "Ids of the documents of whose text the model read only the beginning; of lines the first "
        "`limits.max_line_errors` (/info), x-truncated counts all. Absent if there are none.",
        ["de/1"],
        default_factory=list,
    )
    lines: int | None = optional("Lines that are not blank.", 1000)
    unchanged: int | None = optional("Documents that were there already as they are; they are not embedded again.", 0)
    failed_lines: int | None = optional("Lines that were not stored.", 0)
    errors: list[LineError] = described(
        "The first `limits.max_line_errors` (/info) of them. Absent if there are none.",
        [{"line": 3, "error": "text: Field required"}],
        default_factory=list,
    )
    failed: list[FailedDocument] = described(
        "Documents whose text the model failed on; earlier versions of them stay. Absent if there are "
        "none; if all fail, the request fails.",
        [{"id": "de/2", "error": "the model failed on a text of 9 tokens"}],
        default_factory=list,
    )


class PatchDocumentRequest(Strict):
    """What to change of a document."""

    metadata: Metadata = described(
        "Keys to set; null removes one, an object changes the keys in it (RFC 7396). Others stay.",
        {"price": 12.5, "old": None},
    )


class PatchDocumentResponse(BaseModel):
    """Sent once the change is on disk."""

    revision: int = described("The number of this change; later changes have larger ones.", 8)


class DeleteDocumentsRequest(Strict):
    """Documents to remove: by ids or by a filter."""

    model_config = whole_example({"ids": ["de/1"]})

    ids: Listed[str] | None = optional("Ids to remove; unknown ones are ignored.", ["de/1"])
    filter: dict[str, Any] | None = optional(
        "Removes every document whose metadata match; must not be empty.", *FILTER_EXAMPLES
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("send either ids or filter")
        return self


class DeleteDocumentsResponse(BaseModel):
    """The outcome of a removal."""

    deleted: int = described("Number of documents removed.", 1)


FacetFields = Annotated[
    Listed[str],
    described(
        "Fields of the metadata: count the documents that match the filter by each one's values.",
        ["lang"],
        default_factory=list,
    ),
]
Facets = Annotated[
    dict[str, dict[str, int]] | None,
    described(
        "For each field of `facets` how many documents have each value, the most frequent first; numbers "
        "and booleans are spelled as in JSON. Absent if there are none.",
        {"lang": {"de": 12, "en": 3}},
    ),
]
FacetsCut = Annotated[
    list[str] | None,
    described(
        "The fields of `facets` with further values (`limits.max_facet_values` in /info). Absent if there are none.",
        None,
    ),
]
FacetsAre = Annotated[
    Literal["at_least"] | None,
    described(
        "at_least: more documents match than are looked at, in Milvus 16,000. Absent if the facets are exact.", None
    ),
]


class CountDocumentsRequest(Strict):
    """Documents to count."""

    model_config = whole_example({"filter": {"lang": "de"}, "facets": ["year"]})

    filter: dict[str, Any] | None = optional("Conditions on the metadata; null counts all.", *FILTER_EXAMPLES)
    facets: FacetFields


class CountDocumentsResponse(BaseModel):
    """The number of documents."""

    count: int = described("Number of documents whose metadata match.", 12)
    facets: Facets = None
    facets_cut: FacetsCut = None
    facets_are: FacetsAre = None


class DocumentOut(BaseModel):
    """A stored document."""

    id: str = described("Its name.", "de/1")
    text: str = described("Its text.", GUITAR[1])
    metadata: dict[str, Any] = described("Its metadata.", {"lang": "de"})
    revision: int = described("The number of its last change.", 7)


class DocumentsPage(BaseModel):
    """Documents in the order of their first insertion."""

    documents: list[DocumentOut] = described(
        "At most `limit` documents.", [{"id": "de/1", "text": GUITAR[1], "metadata": {"lang": "de"}, "revision": 7}]
    )
    next_cursor: str | None = described("Send it as `cursor` for the next page; null on the last.", "12")
    total: int = described("Number of documents, or of those that are selected.", 200)
