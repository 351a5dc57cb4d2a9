"""The JSON of documents and searches, described field by field. Limits that are settings are checked by the routes."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from service.documents.mode import Mode
from service.documents.store.fields import inexact
from service.schemas.embed import GUITAR, InputType, Listed, Number, PromptName, Strict, Whole, whole_example

FILTER_EXAMPLES = [
    {"lang": "de"},
    {"source.site": {"ne": "x"}},
    {"and": [{"year": {"gte": 2020, "lt": 2024}}, {"tag": {"in": ["a", "b"]}}]},
]
MAX_METADATA_DEPTH = 240  # orjson writes 254 levels, and an answer wraps metadata in a few
MAX_PATH_CHARS = 100_000  # the store repeats the path for each value, so that filters can look it up


def _storable(metadata: dict[str, Any]) -> dict[str, Any]:
    depth, fault = _looked_through(metadata)
    if depth > MAX_METADATA_DEPTH:
        raise ValueError(f"nested too deeply: {depth} levels; the limit is {MAX_METADATA_DEPTH}")
    if fault is not None:
        raise ValueError(fault)
    chars = _path_chars(metadata)
    if chars > MAX_PATH_CHARS:
        raise ValueError(
            f"the paths to each nested value and each element of its lists have {chars} characters; the limit is "
            f"{MAX_PATH_CHARS}: use shorter keys or fewer values"
        )
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


def _looked_through(value: object) -> tuple[int, str | None]:
    """Return the depth of objects and lists, and why a number in them cannot be stored, if so.

    Goes level by level: deep values must not exhaust Python's stack.
    """
    depth, fault, level = 0, None, [value]
    while containers := [one for one in level if isinstance(one, dict | list | tuple)]:  # Parquet maps have tuples
        depth += 1
        level = [inner for one in containers for inner in (one.values() if isinstance(one, dict) else one)]
        fault = fault or next((found for one in level if (found := inexact(one)) is not None), None)
    return depth, fault


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
    str,
    Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$"),
    AfterValidator(_survives_a_url),
]


class DocumentIn(Strict):
    """A document to store and search."""

    id: DocumentId = Field(
        description="Its name; putting the same id again replaces the document. No part between slashes may be . or ..",
        examples=["de/1"],
    )
    text: str = Field(min_length=1, description="The text that is embedded and found.", examples=[GUITAR[1]])
    metadata: Metadata = Field(
        default_factory=dict,
        description="Any JSON object. Filters can use strings, numbers, booleans, null and lists of them; nested ones "
        "by their path.",
        examples=[{"lang": "de", "year": 2021, "tags": ["music"]}],
    )


class PutDocumentsRequest(Strict):
    """Documents to insert or replace."""

    documents: Listed[DocumentIn] = Field(
        description="Each id at most once.", examples=[[{"id": "de/1", "text": GUITAR[1], "metadata": {"lang": "de"}}]]
    )
    chunk: bool | None = Field(
        None,
        description="Whether a document longer than the model reads is split into passages, each with a vector; false: "
        "its beginning alone is embedded; default: as CROSSLET_CHUNK says.",
        examples=[True],
    )


class FailedDocument(BaseModel):
    """A document that was not stored because the model failed on its text."""

    id: str = Field(description="Its name.", examples=["de/2"])
    error: str = Field(description="Why.", examples=["the model failed on a text of 9 tokens"])


class PutDocumentsResponse(BaseModel):
    """Sent once the documents are on disk and searchable."""

    upserted: int = Field(description="Number of documents inserted or replaced.", examples=[1])
    revision: int = Field(description="The number of this change; later changes have larger ones.", examples=[7])
    failed: list[FailedDocument] = Field(
        default_factory=list,
        description="Documents whose text the model failed on; earlier versions of them stay. Absent if there are "
        "none; if all fail, the request fails.",
        examples=[[{"id": "de/2", "error": "the model failed on a text of 9 tokens"}]],
    )


class DeleteDocumentsRequest(Strict):
    """Documents to remove: by ids or by a filter."""

    model_config = whole_example({"ids": ["de/1"]})

    ids: Listed[str] | None = Field(None, description="Ids to remove; unknown ones are ignored.", examples=[["de/1"]])
    filter: dict[str, Any] | None = Field(
        None, description="Removes every document whose metadata match; must not be empty.", examples=FILTER_EXAMPLES
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("send either ids or filter")
        return self


class DeleteDocumentsResponse(BaseModel):
    """The outcome of a removal."""

    deleted: int = Field(description="Number of documents removed.", examples=[1])


class CountDocumentsRequest(Strict):
    """Documents to count."""

    filter: dict[str, Any] | None = Field(
        None, description="Conditions on the metadata; null counts all.", examples=FILTER_EXAMPLES
    )


class CountDocumentsResponse(BaseModel):
    """The number of documents."""

    count: int = Field(description="Number of documents whose metadata match.", examples=[12])


class DocumentOut(BaseModel):
    """A stored document."""

    id: str = Field(description="Its name.", examples=["de/1"])
    text: str = Field(description="Its text.", examples=[GUITAR[1]])
    metadata: dict[str, Any] = Field(description="Its metadata.", examples=[{"lang": "de"}])
    revision: int = Field(description="The number of its last change.", examples=[7])


class DocumentsPage(BaseModel):
    """Documents in the order of their first insertion."""

    documents: list[DocumentOut] = Field(
        description="At most `limit` documents.",
        examples=[[{"id": "de/1", "text": GUITAR[1], "metadata": {"lang": "de"}, "revision": 7}]],
    )
    next_cursor: str | None = Field(
        description="Send it as `cursor` for the next page; null on the last.", examples=["12"]
    )
    total: int = Field(description="Number of documents, or of those that match the filter.", examples=[200])


class SearchRequest(Strict):
    """What to look for among the documents."""

    model_config = whole_example({"query": "Gitarre spielen", "top_k": 5})

    query: str | None = Field(
        None, description="One query, in any language of the model.", examples=["Gitarre spielen"]
    )
    queries: Listed[str] | None = Field(None, description="Several queries; or `query`, not both.", examples=[GUITAR])
    top_k: Whole = Field(10, ge=1, description="How many documents to return for each query.", examples=[5])
    offset: Whole = Field(
        0,
        ge=0,
        description="Number of best documents to skip, for further pages. Counts towards the limits.",
        examples=[10],
    )
    filter: dict[str, Any] | None = Field(
        None,
        description="Conditions on the metadata, applied during the search: top_k are found if enough match.",
        examples=FILTER_EXAMPLES,
    )
    mode: Mode | None = Field(
        None,
        description="How to find them: by the query's vector, by its words, or by both; default: as "
        "CROSSLET_SEARCH_MODE says.",
        examples=["hybrid"],
    )
    min_score: Number | None = Field(
        None, ge=-1, le=1, description="Leave out documents whose score is lower.", examples=[0.3]
    )
    include: Listed[Literal["text", "metadata", "ranks", "passage"]] = Field(
        default=["text", "metadata"],
        description="What to return with each id and score. With its text a document in passages also has its passage.",
        examples=[["text"]],
    )
    rerank: bool = Field(
        False,
        description="Order the `rerank_k` nearest by the re-ranker, whose scores they then have; refused where none is "
        "loaded.",
        examples=[False],
    )
    rerank_k: Whole = Field(50, ge=1, description="How many documents the re-ranker reads.", examples=[50])
    prompt_name: PromptName = None
    input_type: InputType = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.query is None) == (self.queries is None):
            raise ValueError("send either query or queries")
        return self


class Ranks(BaseModel):
    """Where a document is in the orders that its place was made of."""

    dense: int | None = Field(description="By cosine, from 1; null: not among those looked at.", examples=[2])
    keywords: int | None = Field(description="By keywords, from 1; null: likewise.", examples=[1])


class PassageOut(BaseModel):
    """The part of a document that answers best."""

    text: str = Field(description="Its text.", examples=[GUITAR[1]])
    start: int = Field(description="Where it begins in the document, in Unicode code points.", examples=[0])
    end: int = Field(description="Where it ends: text[start:end].", examples=[len(GUITAR[1])])


class SearchResult(BaseModel):
    """One document that was found."""

    id: str = Field(description="The document's id.", examples=["de/1"])
    score: float = Field(
        description="dense: the cosine with the query, in [-1, 1]. keywords: the share of its best BM25, in [0, 1). "
        "hybrid: the cosine, moved towards 1 by the words.",
        examples=[0.83],
    )
    text: str | None = Field(None, description="Its text, if included.", examples=[GUITAR[1]])
    metadata: dict[str, Any] | None = Field(None, description="Its metadata, if included.", examples=[{"lang": "de"}])
    passage: PassageOut | None = Field(
        None,
        description="The best passage of a document in several; of one in a single piece only if `include` names it.",
        examples=[{"text": GUITAR[1], "start": 0, "end": len(GUITAR[1])}],
    )
    ranks: Ranks | None = Field(None, description="Its ranks, if included.", examples=[{"dense": 2, "keywords": 1}])


class SearchResponse(BaseModel):
    """Documents by descending score, ties by id; re-ranked ones by their cosine."""

    results: list[SearchResult] | list[list[SearchResult]] = Field(
        description="A list for `query`, a list of lists for `queries`.",
        examples=[[{"id": "de/1", "score": 0.83, "text": GUITAR[1], "metadata": {"lang": "de"}}]],
    )
    took_ms: float = Field(description="Milliseconds from the query's arrival to this answer.", examples=[2.4])
