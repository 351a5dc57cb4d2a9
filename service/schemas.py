"""The JSON of requests and answers, described field by field. Knows shapes; limits that are settings come later."""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

GUITAR = ["A man is playing a guitar.", "Ein Mann spielt Gitarre."]
FILTER_EXAMPLES = [{"lang": "de"}, {"and": [{"year": {"gte": 2020, "lt": 2024}}, {"tag": {"in": ["a", "b"]}}]}]

# TEI's clients send fields that mean nothing here; they are ignored there, and refused on our own routes (`Strict`).
IGNORE = ConfigDict(extra="ignore")


MAX_METADATA_DEPTH = 240  # orjson writes 254 levels, and an answer puts a few around the metadata

T = TypeVar("T")

# One wrong element is enough to know: an error for each of a hundred thousand takes a second and 300 MB.
Listed = Annotated[list[T], Field(fail_fast=True)]


def _storable(metadata: dict[str, Any]) -> dict[str, Any]:
    depth = _depth(metadata)
    if depth > MAX_METADATA_DEPTH:
        raise ValueError(f"nested too deeply: {depth} levels; the limit is {MAX_METADATA_DEPTH}")
    return metadata


def _depth(value: object) -> int:
    """Levels of objects and lists, counted level by level: deep values must not exhaust Python's stack."""
    depth, level = 0, [value]
    while containers := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in containers for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


Metadata = Annotated[dict[str, Any], AfterValidator(_storable)]
# No control characters: an id must survive a URL, a log and a terminal.
DocumentId = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Strict(BaseModel):
    """A request that may hold no field but its own."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _knows_every_field(cls, given: object) -> object:
        """One error for all unknown fields, and before any is looked at: a body holds hundreds of thousands."""
        if isinstance(given, dict) and not given.keys() <= cls.model_fields.keys():
            raise ValueError(f"a field is unknown; known are {', '.join(cls.model_fields)}")
        return given


class EmbedRequest(BaseModel):
    """Texts to turn into unit vectors (text-embeddings-inference's request)."""

    model_config = IGNORE

    inputs: str | Listed[str] = Field(description="One text or a list of texts.", examples=[GUITAR])
    normalize: bool | None = Field(
        True, description="Only true (or null): the model gives vectors of norm 1 and no others.", examples=[True]
    )
    truncate: bool | None = Field(
        True,
        description="Cut texts that are longer than the model reads (see x-truncated); false refuses them with 422.",
        examples=[True],
    )
    dimensions: int | None = Field(
        None,
        ge=1,
        description="Keep the first dimensions only, scaled to norm 1 again; null keeps all.",
        examples=[128],
    )

    @model_validator(mode="after")
    def _is_normalized(self) -> Self:
        if self.normalize is False:
            raise ValueError("normalize is false; this model only has vectors of norm 1, leave it out")
        return self


class SourceSimilarity(Strict):
    """One sentence against many."""

    source_sentence: str = Field(description="The sentence to compare.", examples=[GUITAR[0]])
    sentences: Listed[str] = Field(description="What to compare it with.", examples=[GUITAR[1:]])


class PairSimilarity(Strict):
    """Pairs, each compared within itself."""

    pairs: Listed[tuple[str, str]] = Field(description="Pairs of texts.", examples=[[GUITAR]])


class MatrixSimilarity(Strict):
    """Every text on the left against every text on the right."""

    left: Listed[str] = Field(description="The rows of the answer.", examples=[GUITAR[:1]])
    right: Listed[str] = Field(description="The columns of the answer.", examples=[GUITAR[1:]])


def _similarity_shape(inputs: object) -> str | None:
    keys = ("source_sentence", "pairs", "left")
    return next((key for key in keys if isinstance(inputs, dict) and key in inputs), None)


class SimilarityRequest(BaseModel):
    """Texts to compare, in one of three shapes."""

    model_config = IGNORE

    inputs: Annotated[
        Annotated[SourceSimilarity, Tag("source_sentence")]
        | Annotated[PairSimilarity, Tag("pairs")]
        | Annotated[MatrixSimilarity, Tag("left")],
        Discriminator(
            _similarity_shape,
            custom_error_type="similarity_shape",
            custom_error_message="an object with source_sentence and sentences, with pairs, or with left and right",
        ),
    ] = Field(
        description="{source_sentence, sentences} or {pairs} for a list of cosines, {left, right} for their matrix.",
        examples=[{"source_sentence": GUITAR[0], "sentences": GUITAR[1:]}, {"pairs": [GUITAR]}],
    )


class DocumentIn(Strict):
    """A document to keep and find."""

    id: DocumentId = Field(description="Its name; putting the same id again replaces the document.", examples=["de/1"])
    text: str = Field(min_length=1, description="The text that is embedded and found.", examples=[GUITAR[1]])
    metadata: Metadata = Field(
        default_factory=dict,
        description="Any JSON object. Strings, numbers, booleans, null and lists of them can be filtered on.",
        examples=[{"lang": "de", "year": 2021, "tags": ["music"]}],
    )


class PutDocumentsRequest(Strict):
    """Documents to insert or replace."""

    documents: Listed[DocumentIn] = Field(
        description="Each id at most once.", examples=[[{"id": "de/1", "text": GUITAR[1], "metadata": {"lang": "de"}}]]
    )


class PutDocumentsResponse(BaseModel):
    """Answered only once the documents are on the disk and searchable."""

    upserted: int = Field(description="How many documents were inserted or replaced.", examples=[1])
    revision: int = Field(description="The number of this change; it only grows.", examples=[7])


class DeleteDocumentsRequest(Strict):
    """Documents to remove: by ids or by a filter."""

    ids: Listed[str] | None = Field(None, description="Ids to remove; unknown ones are ignored.", examples=[["de/1"]])
    filter: dict[str, Any] | None = Field(
        None, description="Removes every document whose metadata match; not empty.", examples=FILTER_EXAMPLES
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("send either ids or filter")
        return self


class DeleteDocumentsResponse(BaseModel):
    """The outcome of a removal."""

    deleted: int = Field(description="How many documents there were to remove.", examples=[1])


class DocumentOut(BaseModel):
    """A stored document."""

    id: str = Field(description="Its name.", examples=["de/1"])
    text: str = Field(description="Its text.", examples=[GUITAR[1]])
    metadata: dict[str, Any] = Field(description="What was put with it.", examples=[{"lang": "de"}])
    revision: int = Field(description="The number of the change that put it.", examples=[7])


class DocumentsPage(BaseModel):
    """Documents in the order of their first arrival."""

    documents: list[DocumentOut] = Field(
        description="At most `limit` documents.",
        examples=[[{"id": "de/1", "text": GUITAR[1], "metadata": {"lang": "de"}, "revision": 7}]],
    )
    next_cursor: str | None = Field(
        description="Send it as `cursor` for the next page; null on the last.", examples=["12"]
    )
    total: int = Field(description="How many documents there are.", examples=[200])


class SearchRequest(Strict):
    """What to look for among the documents."""

    query: str | None = Field(
        None, description="One query, in any language of the model.", examples=["Gitarre spielen"]
    )
    queries: Listed[str] | None = Field(None, description="Several queries; or `query`, not both.", examples=[GUITAR])
    top_k: int = Field(10, ge=1, description="How many documents to return for each query.", examples=[5])
    filter: dict[str, Any] | None = Field(
        None,
        description="Conditions on the metadata, applied inside the search: top_k are found whenever so many match.",
        examples=FILTER_EXAMPLES,
    )
    min_score: float | None = Field(
        None, ge=-1, le=1, description="Leave out documents whose cosine is lower.", examples=[0.3]
    )
    include: Listed[Literal["text", "metadata"]] = Field(
        default=["text", "metadata"], description="What to return with each id and score.", examples=[["text"]]
    )
    rerank: bool = Field(
        False, description="Re-score with a re-ranker; refused while none is loaded.", examples=[False]
    )
    rerank_k: int = Field(50, ge=1, description="How many candidates the re-ranker reads.", examples=[50])

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.query is None) == (self.queries is None):
            raise ValueError("send either query or queries")
        return self


class SearchResult(BaseModel):
    """One document that was found."""

    id: str = Field(description="The document's id.", examples=["de/1"])
    score: float = Field(description="Cosine with the query, in [-1, 1].", examples=[0.83])
    text: str | None = Field(None, description="Its text, if included.", examples=[GUITAR[1]])
    metadata: dict[str, Any] | None = Field(None, description="Its metadata, if included.", examples=[{"lang": "de"}])


class SearchResponse(BaseModel):
    """Documents by descending score, ties by id."""

    results: list[SearchResult] | list[list[SearchResult]] = Field(
        description="A list for `query`, a list of lists for `queries`.",
        examples=[[{"id": "de/1", "score": 0.83, "text": GUITAR[1], "metadata": {"lang": "de"}}]],
    )
    took_ms: float = Field(description="Milliseconds from the query's arrival to this answer.", examples=[2.4])


class Limits(BaseModel):
    """What one request may hold."""

    max_texts: int = Field(description="Texts in a request.", examples=[512])
    max_text_chars: int = Field(description="Characters of a text.", examples=[100_000])
    max_queue_texts: int = Field(description="Texts waiting, over all requests.", examples=[4096])
    max_body_bytes: int = Field(description="Bytes of a body.", examples=[4_000_000])
    max_top_k: int = Field(description="Largest top_k and largest page.", examples=[1000])
    max_results: int = Field(description="Results in an answer: queries times top_k.", examples=[10_000])


class IndexInfo(BaseModel):
    """The document index."""

    backend: str = Field(description="What searches.", examples=["faiss-flat"])
    documents: int = Field(description="Documents in it.", examples=[200])
    size_bytes: int = Field(description="Memory of their vectors.", examples=[312_800])


class InfoResponse(BaseModel):
    """What runs here."""

    model: str = Field(description="Name of the model.", examples=["default"])
    fingerprint: str = Field(description="Identity of its vector space.", examples=["6f9a3a69"])
    dim: int = Field(description="Length of a vector.", examples=[384])
    max_length: int = Field(description="Tokens it reads, specials included.", examples=[128])
    languages: list[str] = Field(description="ISO codes it was trained on.", examples=[["de", "en"]])
    precision: str = Field(description="int8 or fp32.", examples=["int8"])
    parameters: int = Field(description="Number of its weights.", examples=[10_000_000])
    limits: Limits = Field(description="The limits in force.", examples=[{"max_texts": 512, "max_top_k": 1000}])
    index: IndexInfo = Field(
        description="Where documents are searched, and how many.",
        examples=[{"backend": "faiss-flat", "documents": 200, "size_bytes": 312_800}],
    )
    version: str = Field(description="Version of crosslet.", examples=["0.1.0"])


class StatusResponse(BaseModel):
    """The answer to a probe."""

    status: Literal["ok"] = Field(description="Always ok.", examples=["ok"])


class ErrorResponse(BaseModel):
    """The one body of all errors."""

    error: str = Field(
        description="One sentence; for a limit it gives both numbers and the setting.",
        examples=["inputs has 600 texts; the limit is 512 (CROSSLET_MAX_TEXTS)"],
    )
    error_type: Literal[
        "Validation", "Tokenizer", "Overloaded", "Backend", "Unauthorized", "NotFound", "TooLarge", "NotReady"
    ] = Field(description="What kind of refusal it is.", examples=["Validation"])
