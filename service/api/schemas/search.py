"""The JSON of searches, described field by field. Limits that are settings are checked by the routes."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from service.api.schemas.documents import FILTER_EXAMPLES, FacetFields, Facets, FacetsCut
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
from service.documents.names import Mode


class SearchRequest(Strict):
    """What to look for among the documents."""

    model_config = whole_example({"query": "Gitarre spielen", "top_k": 5})
    synonyms: ClassVar = {
        **dict.fromkeys(("limit", "k", "n", "size", "count"), "top_k"),
        **dict.fromkeys(("q", "text", "input", "inputs"), "query"),
        **{"skip": "offset", "where": "filter", "threshold": "min_score", "id": "like"},
    }

    query: QueryText | None = optional("One query, in any language of the model.", "Gitarre spielen")
    queries: Listed[QueryText] | None = optional("Several queries; or `query`, not both.", GUITAR)
    vector: Listed[Number] | None = optional(
        "A vector of the model in place of a query, of any norm; its documents' cosines are found.", [0.1, -0.2, 0.05]
    )
    like: str | None = optional("A document's id in place of a query: finds others like it.", "de/1")
    top_k: Whole = described("How many documents to return for each query.", 5, default=10, ge=1)
    offset: Whole = described(
        "Number of best documents to skip, for further pages. Counts towards the limits.", 10, default=0, ge=0
    )
    filter: dict[str, Any] | None = optional(
        "Conditions on the metadata, applied during the search: top_k are found if enough match.", *FILTER_EXAMPLES
    )
    mode: Mode | None = optional(
        "How to find them: by the query's vector, by its words, or by both; default: as CROSSLET_SEARCH_MODE says.",
        "hybrid",
    )
    min_score: Annotated[Number, Field(ge=-1, le=1)] | Literal["auto"] | None = optional(
        "Leave out documents whose score is lower. auto: as the model recommends (`min_scores` in /info) "
        "for `language`, else for all.",
        0.3,
        "auto",
    )
    language: str | None = optional("ISO code of the query's language, for min_score auto.", "de")
    include: Listed[Literal["text", "metadata", "ranks", "vector", "passage"]] = described(
        "What to return with each id and score. With its text a document in passages also has its passage.",
        ["text"],
        default=["text", "metadata"],
    )
    facets: FacetFields
    rerank: Flag = described(
        "Score the `rerank_k` best by the re-ranker, too, and order them again; refused where none is loaded.",
        default=False,
    )
    rerank_k: Whole = described("How many documents the re-ranker reads.", default=50, ge=1)
    prompt_name: PromptName = None
    input_type: InputType = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if [self.query, self.queries, self.vector, self.like].count(None) != 3:
            raise ValueError("send either query or queries, or vector, or like: one of the four")
        if self.language is not None and self.min_score != "auto":
            raise ValueError("language only chooses the threshold of min_score auto; send both, or neither")
        if self.has_words:
            return self
        name = "vector" if self.like is None else "like"
        if self.mode not in {None, "dense"}:
            raise ValueError(f"mode is {self.mode}, but {name} has no words to look for; leave mode out, or send dense")
        if self.rerank:
            raise ValueError(f"rerank is true, but {name} has no words for the re-ranker; send a query")
        return self

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


class SearchResult(BaseModel):
    """One document that was found."""

    id: str = described("The document's id.", "de/1")
    score: float = described(
        "dense: the cosine with the query, in [-1, 1]. keywords: the share of its best BM25, in [0, 1). "
        "hybrid: the cosine, moved towards 1 by the words. rerank moves it further, or replaces it "
        "(CROSSLET_RERANK_WEIGHT).",
        0.83,
    )
    text: str | None = optional("Its text, if included.", GUITAR[1])
    metadata: dict[str, Any] | None = optional("Its metadata, if included.", {"lang": "de"})
    passage: PassageOut | None = optional(
        "The best passage of a document in several; of one in a single piece only if `include` names it.",
        {"text": GUITAR[1], "start": 0, "end": len(GUITAR[1])},
    )
    ranks: Ranks | None = optional("Its ranks, if included.", {"dense": 2, "keywords": 1})
    vector: list[float] | None = optional("Its vector of norm 1, if included.", [0.1, -0.2, 0.05])


class SearchResponse(BaseModel):
    """Documents by descending score, ties by id; re-ranked ones by their first score."""

    results: list[SearchResult] | list[list[SearchResult]] = described(
        "A list of lists for `queries`, else a list.",
        [{"id": "de/1", "score": 0.83, "text": GUITAR[1], "metadata": {"lang": "de"}}],
    )
    facets: Facets = None
    facets_cut: FacetsCut = None
    min_score: float | None = optional("The threshold that `auto` stood for. Absent otherwise.", 0.43)
    took_ms: float = described("Milliseconds from the query's arrival to this answer.", 2.4)
