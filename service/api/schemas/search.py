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

    query: QueryText | None = Field(
        None, description="One query, in any language of the model.", examples=["Gitarre spielen"]
    )
    queries: Listed[QueryText] | None = Field(
        None, description="Several queries; or `query`, not both.", examples=[GUITAR]
    )
    vector: Listed[Number] | None = Field(
        None,
        description="A vector of the model in place of a query, of any norm; its documents' cosines are found.",
        examples=[[0.1, -0.2, 0.05]],
    )
    like: str | None = Field(
        None, description="A document's id in place of a query: finds others like it.", examples=["de/1"]
    )
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
    min_score: Annotated[Number, Field(ge=-1, le=1)] | Literal["auto"] | None = Field(
        None,
        description="Leave out documents whose score is lower. auto: as the model recommends (`min_scores` in /info) "
        "for `language`, else for all.",
        examples=[0.3, "auto"],
    )
    language: str | None = Field(
        None, description="ISO code of the query's language, for min_score auto.", examples=["de"]
    )
    include: Listed[Literal["text", "metadata", "ranks", "vector", "passage"]] = Field(
        default=["text", "metadata"],
        description="What to return with each id and score. With its text a document in passages also has its passage.",
        examples=[["text"]],
    )
    facets: FacetFields
    rerank: Flag = Field(
        False,
        description="Score the `rerank_k` best by the re-ranker, too, and order them again; refused where none is "
        "loaded.",
        examples=[False],
    )
    rerank_k: Whole = Field(50, ge=1, description="How many documents the re-ranker reads.", examples=[50])
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
        "hybrid: the cosine, moved towards 1 by the words. rerank moves it further, or replaces it "
        "(CROSSLET_RERANK_WEIGHT).",
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
    vector: list[float] | None = Field(
        None, description="Its vector of norm 1, if included.", examples=[[0.1, -0.2, 0.05]]
    )


class SearchResponse(BaseModel):
    """Documents by descending score, ties by id; re-ranked ones by their first score."""

    results: list[SearchResult] | list[list[SearchResult]] = Field(
        description="A list of lists for `queries`, else a list.",
        examples=[[{"id": "de/1", "score": 0.83, "text": GUITAR[1], "metadata": {"lang": "de"}}]],
    )
    facets: Facets = None
    facets_cut: FacetsCut = None
    min_score: float | None = Field(
        None, description="The threshold that `auto` stood for. Absent otherwise.", examples=[0.43]
    )
    took_ms: float = Field(description="Milliseconds from the query's arrival to this answer.", examples=[2.4])
