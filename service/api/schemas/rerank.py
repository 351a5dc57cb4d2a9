"""The JSON of re-ranking, in the shapes of text-embeddings-inference, Cohere and Jina. Knows shapes, no limits."""

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag, model_validator

from service.api.schemas.embed import Flag, Listed, QueryText, Truncation, Whole, whole_example
from service.api.schemas.foreign_options import RANKING, TEI_RANKING

QUERY = "Wer spielt Gitarre?"
PASSAGES = ["The stock market fell.", "A man is playing a guitar."]


def _text_of(given: object) -> object:
    """The text of a document that comes as an object, as Cohere's and Jina's do."""
    if not isinstance(given, dict):
        return given
    if not isinstance(given.get("text"), str):
        raise ValueError('an object needs its "text"; only that is scored')
    return given["text"]


class RerankDocument(BaseModel):
    """A document as an object."""

    text: str = Field(description="What is scored.", examples=[PASSAGES[1]])


DocumentText = Annotated[str, BeforeValidator(_text_of, json_schema_input_type=str | RerankDocument)]


class RerankOptions(Truncation):
    """How passages are read."""

    windows: Flag | None = Field(
        False,
        description="Score a passage that is too long by the best of its windows, which overlap by half; each counts "
        "as a text. Each model has its own windows.",
        examples=[False],
    )

    @property
    def reading(self) -> dict[str, bool]:
        """The options as `Ranker.rank` takes them; null means the default."""
        return {"truncate": self.may_cut, "windows": bool(self.windows)}


class RerankTexts(RerankOptions):
    """A query and texts to put in order (RerankRequest of text-embeddings-inference)."""

    model_config = whole_example({"query": QUERY, "texts": [*PASSAGES]})
    refused = TEI_RANKING

    query: QueryText = Field(description="What is looked for.", examples=[QUERY])
    texts: Listed[str] = Field(description="What may answer it.", examples=[PASSAGES])
    raw_scores: Flag | None = Field(
        False,
        description="Return unmapped scores: the cosine, raised by a re-ranker if there is one; with "
        "CROSSLET_RERANK_WEIGHT=alone its logit.",
        examples=[False],
    )
    return_text: Flag | None = Field(False, description="Whether each result has its text.", examples=[False])


class RerankDocuments(RerankOptions):
    """A query and documents to put in order (Cohere's and Jina's request)."""

    model_config = whole_example({"query": QUERY, "documents": [*PASSAGES], "top_n": 1})
    refused = RANKING

    query: QueryText = Field(description="What is looked for.", examples=[QUERY])
    documents: Listed[DocumentText] = Field(
        description='What may answer it: texts, or objects with a "text".', examples=[PASSAGES]
    )
    top_n: Whole | None = Field(None, ge=1, description="How many of the best to return; null: all.", examples=[1])
    return_documents: Flag | None = Field(False, description="Whether each result has its document.", examples=[False])
    max_tokens_per_doc: Whole | None = Field(
        None,
        ge=0,
        description="Only as many as the model reads, or more: it cuts a long document itself. 0 and null: the same.",
        examples=[4096],
    )
    rank_fields: Listed[str] | None = Field(
        None, description="Only text (or null): of an object nothing else is scored.", examples=[["text"]]
    )
    model: str | None = Field(
        None, description="Any name: there is one model, and the answer names it.", examples=["default"]
    )

    @model_validator(mode="after")
    def _ranks_by_text(self) -> Self:
        if self.rank_fields not in (None, ["text"]):
            raise ValueError("rank_fields names others than text; an object is scored by its text alone, leave it out")
        return self


def _shape(body: object) -> str:
    has_texts = "texts" in body if isinstance(body, dict) else isinstance(body, RerankTexts)
    return "of-texts" if has_texts else "of-documents"


# The tags are no identifiers: messages leave them out of a field's place.
RerankRequest = Annotated[
    Annotated[RerankTexts, Tag("of-texts")] | Annotated[RerankDocuments, Tag("of-documents")], Discriminator(_shape)
]


class RankedText(BaseModel):
    """One result in the shape of text-embeddings-inference."""

    index: int = Field(description="Position in `texts`.", examples=[1])
    score: float = Field(description="In [0, 1]; with `raw_scores` in [-1, 1], or a logit.", examples=[0.83])
    text: str | None = Field(None, description="The text, with `return_text`.", examples=[PASSAGES[1]])


class RankedDocument(BaseModel):
    """One result in Cohere's and Jina's shape."""

    index: int = Field(description="Position in `documents`.", examples=[1])
    relevance_score: float = Field(description="In [0, 1].", examples=[0.83])
    document: RerankDocument | None = Field(
        None, description="The document, with `return_documents`.", examples=[{"text": PASSAGES[1]}]
    )


class RerankUsage(BaseModel):
    """What the request cost, as Jina says it."""

    prompt_tokens: int = Field(description="Tokens read by the model.", examples=[21])
    total_tokens: int = Field(description="The same.", examples=[21])


class RerankTokens(BaseModel):
    """Token counts, as Cohere says them."""

    input_tokens: int = Field(description="Tokens read by the model.", examples=[21])


class RerankMeta(BaseModel):
    """What Cohere's answers say of the request."""

    tokens: RerankTokens = Field(description="Token counts.", examples=[{"input_tokens": 21}])
    warnings: list[str] | None = Field(
        None, description="Which texts were cut; absent if none was.", examples=[["documents[1] was cut"]]
    )


class RerankResponse(BaseModel):
    """The answer in Cohere's and Jina's shape."""

    id: str = Field(description="The request's id, as in x-request-id.", examples=["6f1c2a"])
    model: str = Field(
        description="What scored: the re-ranker, or the bi-encoder, which then says so.",
        examples=["default (bi-encoder)"],
    )
    results: list[RankedDocument] = Field(
        description="Best first; equal scores keep their order.", examples=[[{"index": 1, "relevance_score": 0.83}]]
    )
    usage: RerankUsage = Field(description="Token counts.", examples=[{"prompt_tokens": 21, "total_tokens": 21}])
    meta: RerankMeta = Field(description="The same, as Cohere says it.", examples=[{"tokens": {"input_tokens": 21}}])
