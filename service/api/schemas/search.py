"""The JSON of searches, described field by field. Limits that are settings are checked by the routes."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from service.api.schemas.documents import FILTER_EXAMPLES, FacetFields, Facets, FacetsAre, FacetsCut
from service.api.schemas.embed import (
    GUITAR,
    Flag,
    InputType,
    Listed,
    Number,
    PromptName,
    QueryText,
    Strict,
    Whole,
    described,
    optional,
    whole_example,
)
from service.documents.names import PREFERENCE, Mode

MAX_SORT_FIELDS = 4
LARGEST_OFFSET = 2**31 - 1
AUTO = "auto"
AUTO_FIELD = "lang"  # of documents, for `"prefer": "auto"`

Direction = Literal["asc", "desc"]


def _scalar(value: object) -> object:
    if not isinstance(value, str | bool | int | float):
        raise ValueError("is no string, number or boolean")
    return value


class Prefer(Strict):
    """Documents to prefer."""

    field: str = described("A field of the metadata.", AUTO_FIELD, min_length=1)
    value: Annotated[str | bool | int | float, BeforeValidator(_scalar)] = described(
        "Its value; auto: the query's language as an ISO code. Where that is unsure, none is preferred.", "de", "auto"
    )
    weight: Annotated[Number, Field(gt=0, le=1)] = described(
        "What is added to the scores of those documents.", 0.3, default=PREFERENCE
    )


def _spelled_out(given: object) -> object:
    if not isinstance(given, str):
        return given
    if given != AUTO:
        raise ValueError('send "auto", or an object such as {"field": "lang", "value": "de"}')
    return {"field": AUTO_FIELD, "value": AUTO}


def _objects(given: object) -> object:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ValueError('must be a list of objects, such as [{"price": "asc"}]')
    return given


def _one_field(by: dict[str, Direction]) -> dict[str, Direction]:
    if len(by) != 1:
        raise ValueError('has not one field; write each as an object of its own, such as {"price": "asc"}')
    return by


PreferField = Annotated[Prefer, BeforeValidator(_spelled_out, json_schema_input_type=Prefer | Literal["auto"])]


class SearchRequest(Strict):
    """What to look for among the documents."""

    model_config = whole_example({"query": "Gitarre spielen", "top_k": 5})
    synonyms: ClassVar = {
        **dict.fromkeys(("limit", "k", "n", "size", "count"), "top_k"),
        **dict.fromkeys(("q", "text", "input", "inputs"), "query"),
        **{"skip": "offset", "where": "filter", "threshold": "min_score", "id": "like", "boost": "prefer"},
        **{"sort_by": "sort", "order_by": "sort", "order": "sort", "distinct": "group_by", "collapse": "group_by"},
    }

    query: QueryText | None = optional("One query, in any language of the model.", "Gitarre spielen")
    queries: Listed[QueryText] | None = optional("Several queries; or `query`, not both.", GUITAR)
    vector: Listed[Number] | None = optional(
        "A vector of the model in place of a query, of any norm; its documents' cosines are found.", [0.1, -0.2, 0.05]
    )
    like: str | None = optional("A document's id in place of a query: finds others like it.", "de/1")
    top_k: Whole = described("How many documents, or groups, to return for each query.", 5, default=10, ge=1)
    offset: Whole = described(
        "Number of best documents to skip, for further pages. Counts towards the limits of a query.",
        10,
        default=0,
        ge=0,
        le=LARGEST_OFFSET,
    )
    filter: dict[str, Any] | None = optional(
        "Conditions on the metadata, applied during the search: top_k are found if enough match. Without a query: all "
        "that match, in the order of `sort`, then of their ids.",
        *FILTER_EXAMPLES,
    )
    group_by: str | None = optional(
        "A field of the metadata: of the documents with one value only the best is found. Those without are all found.",
        "topic",
        min_length=1,
    )
    prefer: PreferField | None = optional(
        'Documents whose scores are raised; none is left out. auto: {"field": "lang", "value": "auto"}.',
        {"field": "lang", "value": "de", "weight": 0.1},
        "auto",
    )
    sort: Annotated[
        Listed[Annotated[dict[str, Direction], AfterValidator(_one_field)]],
        Field(max_length=MAX_SORT_FIELDS),
        BeforeValidator(_objects),
    ] = described(
        "Fields of the metadata to sort by, one an object: strings by code point, documents without one last.",
        [{"price": "asc"}, {"year": "desc"}],
        default_factory=list,
    )
    sort_k: Whole | None = optional("How many of a query's best documents are sorted; default: `top_k`.", 100, ge=1)
    mode: Mode | None = optional(
        "How to find them: by the query's vector, by its words, or by both; default: as CROSSLET_SEARCH_MODE says.",
        "hybrid",
    )
    typing: Flag = described(
        "Whether the last word may go on, as while it is typed. Not for mode dense.", default=False
    )
    min_score: Annotated[Number, Field(ge=-1, le=1)] | Literal["auto"] | None = optional(
        "Leave out documents whose score, before `prefer`, is lower. auto: as the model recommends (`min_scores` in "
        "/info) for `language`, else for all.",
        0.3,
        "auto",
    )
    min_confidence: Annotated[Number, Field(ge=0, le=1)] | None = optional(
        "Return no results if `confidence` is lower; default: CROSSLET_MIN_CONFIDENCE, which is off.", 0.8
    )
    language: str | None = optional("ISO code of the query's language, for min_score and prefer auto.", "de")
    include: Listed[
        Literal["text", "metadata", "ranks", "vector", "passage", "highlights", "reranker_score", "withheld"]
    ] = described(
        "What to return with each id and score. With its text a document in passages also has its passage. withheld: "
        "results also where `min_confidence` is not reached. reranker_score: only with `rerank`.",
        ["text"],
        default=["text", "metadata"],
    )
    facets: FacetFields
    rerank: Flag = described(
        "Score the `rerank_k` best by the re-ranker, too, and order them again; refused where none is loaded.",
        default=False,
    )
    rerank_k: Whole | None = optional(
        "How many documents the re-ranker reads; default: the larger of 20 and what the page needs, offset + top_k.",
        50,
        ge=1,
    )
    prompt_name: PromptName = None
    input_type: InputType = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        queries = 4 - [self.query, self.queries, self.vector, self.like].count(None)
        if queries > 1 or not (queries or self.filter is not None or self.sort):
            raise ValueError(
                "send either query or queries, or vector, or like: one of the four; or none, but a filter or sort"
            )
        if self.sort_k is not None and not self.sort:
            raise ValueError("sort_k says how many documents are sorted; send sort, too, or leave it out")
        is_auto = self.prefer is not None and self.prefer.value == AUTO
        if self.language is not None and self.min_score != AUTO and not is_auto:
            raise ValueError("language only chooses what auto of min_score or prefer means; send one, or leave it out")
        if "reranker_score" in self.include and not self.rerank:
            raise ValueError("include has reranker_score, but rerank is not true; send rerank, or leave it out")
        if self.typing and self.mode == "dense":
            raise ValueError("typing is true, but mode is dense, which looks for no words; send keywords or hybrid")
        if not queries:
            self._check_filter_alone()
        elif not self.has_words:
            self._check_without_words("vector" if self.like is None else "like", is_auto=is_auto)
        return self

    def _check_filter_alone(self) -> None:
        given = {"mode": self.mode, "min_score": self.min_score, "prefer": self.prefer, "sort_k": self.sort_k}
        given |= {"min_confidence": self.min_confidence}
        given |= {"rerank": self.rerank or None, "typing": self.typing or None}
        if (name := next((name for name, value in given.items() if value is not None), None)) is not None:
            raise ValueError(f"{name} needs a query; send one, or leave {name} out")

    def _check_without_words(self, name: str, *, is_auto: bool) -> None:
        if self.mode not in {None, "dense"}:
            raise ValueError(f"mode is {self.mode}, but {name} has no words to look for; leave mode out, or send dense")
        if self.typing:
            raise ValueError(f"typing is true, but {name} has no words that may go on; send a query")
        if self.rerank:
            raise ValueError(f"rerank is true, but {name} has no words for the re-ranker; send a query")
        if is_auto and self.language is None:
            raise ValueError(f"prefer is auto, but {name} has no words to tell a language by; send language")

    @property
    def has_words(self) -> bool:
        """Whether it asks by text."""
        return self.vector is None and self.like is None


class Ranks(BaseModel):
    """Where a document is in the orders that its place was made of."""

    dense: int | None = described("By cosine, from 1; null: not among those looked at.", 2)
    keywords: int | None = described("By keywords, from 1; null: likewise.", 1)


class PassageOut(BaseModel):
    """The part of a document that answers best."""

    text: str = described("Its text.", GUITAR[1])
    start: int = described("Where it begins in the document, in Unicode code points.", 0)
    end: int = described("Where it ends: text[start:end].", len(GUITAR[1]))


class Highlight(BaseModel):
    """A place in a document's text."""

    start: int = described("Where it begins, in Unicode code points.", 0)
    end: int = described("Where it ends: text[start:end].", 7)
    kind: Literal["word", "sentence"] = described("A word that matched, or the best sentence.", "word")


class SearchResult(BaseModel):
    """One document that was found."""

    id: str = described("The document's id.", "de/1")
    score: float | None = described(
        "dense: the cosine with the query, in [-1, 1]. keywords: the share of its best BM25, in [0, 1). "
        "hybrid: the cosine, moved towards 1 by the words. rerank moves it further, or replaces it "
        "(CROSSLET_RERANK_WEIGHT); prefer adds its weight. null without a query.",
        0.83,
    )
    text: str | None = optional("Its text, if included.", GUITAR[1])
    metadata: dict[str, Any] | None = optional("Its metadata, if included.", {"lang": "de"})
    passage: PassageOut | None = optional(
        "The best passage of a document in several; of one in a single piece only if `include` names it.",
        {"text": GUITAR[1], "start": 0, "end": len(GUITAR[1])},
    )
    ranks: Ranks | None = optional("Its ranks, if included.", {"dense": 2, "keywords": 1})
    reranker_score: float | None = optional("The re-ranker's own score in [0, 1], if included.", 0.97)
    highlights: list[Highlight] | None = optional(
        "What matched in its text, or in its passage, if included: at most 100 words, and the best sentence.",
        [{"start": 0, "end": 7, "kind": "word"}],
    )
    vector: list[float] | None = optional("Its vector of norm 1, if included.", [0.1, -0.2, 0.05])
    group: str | float | bool | None = optional(
        "Its value of `group_by`; null: it has none, and is a group of its own.", "returns"
    )
    group_size: int | None = optional(
        "How many documents that match the filter are in its group; by keywords, of those found.", 8
    )


class Answer(BaseModel):
    """How sure a search is."""

    confidence: float | None = described(
        "The probability that the first result, before paging, sorting and grouping, answers the query; null: it "
        "cannot be told.",
        0.83,
    )
    answered: bool = described("Whether there are results; false where `min_confidence` is not reached, too.", True)
    confidence_is_null: str | None = optional("Why; absent otherwise.", "a search by keywords has no cosines")


class SearchResponse(BaseModel):
    """Documents by descending score, or as `sort` says, ties by id; re-ranked ones by their first score."""

    results: list[SearchResult] | list[list[SearchResult]] = described(
        "A list of lists for `queries`, else a list.",
        [{"id": "de/1", "score": 0.83, "text": GUITAR[1], "metadata": {"lang": "de"}}],
    )
    confidence: float | None = optional("As in `answers`, for one query. Absent without any.", 0.83)
    answered: bool | None = optional("Likewise.", True)
    confidence_is_null: str | None = optional("Likewise.", "a search by keywords has no cosines; mode hybrid has")
    answers: list[Answer] | None = optional("How sure the search is of each of `queries`.", [{"answered": False}])
    total: int | list[int | None] | None = described(
        "How many documents, or groups, there are over all pages; null: of all that match the filter each has a score. "
        "A list for `queries`.",
        12,
    )
    total_is: Literal["at_least"] | None = optional(
        "at_least: a word of the query is in more documents than are looked at. Absent if `total` is exact.", "at_least"
    )
    preferred: str | list[str | None] | None = optional(
        "The language that auto of `prefer` stood for; null: unsure. A list for `queries`. Absent otherwise.", "de"
    )
    facets: Facets = None
    facets_cut: FacetsCut = None
    facets_are: FacetsAre = None
    min_score: float | None = optional("The threshold that `auto` stood for. Absent otherwise.", 0.43)
    took_ms: float = described("Milliseconds from the query's arrival to this answer.", 2.4)
