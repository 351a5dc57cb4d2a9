"""The JSON of re-ranking, in the shapes of text-embeddings-inference, Cohere and Jina. Knows shapes, no limits."""

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, Discriminator, Tag, model_validator

from service.api.schemas.embed import Flag, Listed, QueryText, Truncation, Whole, described, optional, whole_example
from service.api.schemas.foreign_options import RANKING, TEI_RANKING
from service.api.schemas.info import TeiInfo
from service.api.schemas.openai import OpenAIUsage

QUERY = "Wer spielt Gitarre?"
OWN_SCORE = "The re-ranker's own score in [0, 1], with `reranker_scores`."
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

    text: str = described("What is scored.", PASSAGES[1])


DocumentText = Annotated[str, BeforeValidator(_text_of, json_schema_input_type=str | RerankDocument)]


class RerankOptions(Truncation):
    """How passages are read."""

    windows: Flag | None = described(
        "Score a passage that is too long by the best of its windows, which overlap by half; each counts "
        "as a text. Each model has its own windows.",
        default=False,
    )

    reranker_scores: Flag | None = described(
        "Whether each result also has the re-ranker's own score; refused where none is loaded.", default=False
    )

    @model_validator(mode="after")
    def _keeps_beginnings(self) -> Self:
        if self.keeps_end:
            name = "truncate is START" if self.truncate == "START" else "truncation_direction is left"
            raise ValueError(f"{name}; a passage is read from its beginning: leave it out, or send windows: true")
        return self

    @property
    def reading(self) -> dict[str, bool]:
        """The options as `rank` takes them; null means the default."""
        return {
            "truncate": self.may_cut,
            "windows": bool(self.windows),
            "reranker_scores": bool(self.reranker_scores),
        }


class RerankTexts(RerankOptions):
    """A query and texts to put in order (RerankRequest of text-embeddings-inference)."""

    model_config = whole_example({"query": QUERY, "texts": [*PASSAGES]})
    refused = TEI_RANKING

    query: QueryText = described("What is looked for.", QUERY)
    texts: Listed[str] = described("What may answer it.", PASSAGES)
    raw_scores: Flag | None = described(
        "Return unmapped scores: the cosine, raised by a re-ranker if there is one; with "
        "CROSSLET_RERANK_WEIGHT=alone its logit.",
        default=False,
    )
    return_text: Flag | None = described("Whether each result has its text.", default=False)
    top_n: Whole | None = optional("How many of the best to return; null: all.", 1, ge=1)


class RerankDocuments(RerankOptions):
    """A query and documents to put in order (Cohere's and Jina's request)."""

    model_config = whole_example({"query": QUERY, "documents": [*PASSAGES], "top_n": 1})
    refused = RANKING

    query: QueryText = described("What is looked for.", QUERY)
    documents: Listed[DocumentText] = described('What may answer it: texts, or objects with a "text".', PASSAGES)
    top_n: Whole | None = optional("How many of the best to return; null: all.", 1, ge=1)
    return_documents: Flag | None = described("Whether each result has its document.", default=False)
    max_tokens_per_doc: Whole | None = optional(
        "Only as many as the model reads, or more: it cuts a long document itself. 0 and null: the same.", 4096, ge=0
    )
    rank_fields: Listed[str] | None = optional("Only text (or null): of an object nothing else is scored.", ["text"])
    model: str | None = optional("Any name: there is one model, and the answer names it.", "default")

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

    index: int = described("Position in `texts`.", 1)
    score: float = described("In [0, 1]; with `raw_scores` in [-1, 1], or a logit.", 0.83)
    text: str | None = optional("The text, with `return_text`.", PASSAGES[1])
    reranker_score: float | None = optional(OWN_SCORE, 0.97)


class RankingInfo(TeiInfo):
    """What text-embeddings-inference says of a re-ranker."""

    model_type: dict[str, dict[str, dict[str, int]]] = described(
        "Always reranker, without labels.", {"reranker": {"id2label": {}, "label2id": {}}}
    )


class RankedDocument(BaseModel):
    """One result in Cohere's and Jina's shape."""

    index: int = described("Position in `documents`.", 1)
    relevance_score: float = described("In [0, 1].", 0.83)
    reranker_score: float | None = optional(OWN_SCORE, 0.97)
    document: RerankDocument | None = optional("The document, with `return_documents`.", {"text": PASSAGES[1]})


class RerankTokens(BaseModel):
    """Token counts, as Cohere says them."""

    input_tokens: int = described("Tokens read by the model.", 21)


class RerankMeta(BaseModel):
    """What Cohere's answers say of the request."""

    tokens: RerankTokens = described("Token counts.", {"input_tokens": 21})
    warnings: list[str] | None = optional("Which texts were cut; absent if none was.", ["documents[1] was cut"])


class RerankResponse(BaseModel):
    """The answer in Cohere's and Jina's shape."""

    id: str = described("The request's id, as in x-request-id.", "6f1c2a")
    model: str = described("What scored: the re-ranker, or the bi-encoder, which then says so.", "default (bi-encoder)")
    results: list[RankedDocument] = described(
        "Best first; equal scores keep their order.", [{"index": 1, "relevance_score": 0.83}]
    )
    usage: OpenAIUsage = described("Token counts.", {"prompt_tokens": 21, "total_tokens": 21})
    meta: RerankMeta = described("The same, as Cohere says it.", {"tokens": {"input_tokens": 21}})
