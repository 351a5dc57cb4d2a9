"""The JSON of what runs here and of the collections, described field by field."""

from typing import Literal

from pydantic import BaseModel, Field


class SpaceInfo(BaseModel):
    """The vector space of another model, into which vectors can be mapped."""

    name: str = Field(description="Its name for `space` in requests.", examples=["all-MiniLM-L6-v2"])
    identity: str = Field(
        description="The other model, and a hash or commit of its files.",
        examples=["sentence-transformers/all-MiniLM-L6-v2#6f9a3a69"],
    )
    dim: int = Field(description="Length of a vector in it.", examples=[384])
    english_cosine: float = Field(
        description="Mean cosine between mapped vectors of held-out English sentences and the other model's.",
        examples=[0.9],
    )
    other_cosine: float = Field(
        description="The same for their translations, with the other model's vectors of the English sentences.",
        examples=[0.8],
    )


class RerankerInfo(BaseModel):
    """The model that reads query and passage together."""

    name: str = Field(description="Its name.", examples=["crosslet-reranker"])
    fingerprint: str = Field(description="Identity of its scores.", examples=["6f9a3a69"])
    max_length: int = Field(description="Tokens of a pair that it reads, specials included.", examples=[256])
    languages: list[str] = Field(description="ISO codes it was trained on.", examples=[["de", "en"]])
    precision: str = Field(description="int8 or fp32.", examples=["int8"])
    parameters: int = Field(description="Number of its weights.", examples=[10_000_000])
    weight: float | Literal["alone"] = Field(
        description="How it moves scores (CROSSLET_RERANK_WEIGHT).", examples=[0.2]
    )


class Limits(BaseModel):
    """The limits of one request."""

    max_texts: int = Field(description="Texts in a request.", examples=[512])
    max_openai_texts: int = Field(description="Texts in a request to /v1/embeddings.", examples=[2048])
    max_text_chars: int = Field(description="Characters of a text.", examples=[100_000])
    max_queue_texts: int = Field(description="Requests are accepted while fewer texts wait.", examples=[512])
    max_body_bytes: int = Field(description="Bytes of a body.", examples=[4_000_000])
    max_top_k: int = Field(description="Largest top_k and largest page.", examples=[1000])
    max_collections: int = Field(description="Named collections, with the default one.", examples=[32])
    max_results: int = Field(description="Results in an answer: queries times top_k.", examples=[10_000])
    max_line_errors: int = Field(description="Errors listed of an upload of lines.", examples=[100])
    max_bad_lines: int = Field(description="Lines in a row without a document that end an upload.", examples=[1000])
    max_facets: int = Field(description="Fields in `facets`.", examples=[20])
    max_facet_values: int = Field(description="Values counted for a field of `facets`.", examples=[100])


class ReportInfo(BaseModel):
    """What `crosslet index report` last measured on the documents of the default collection."""

    made_at: str = Field(description="When.", examples=["2026-11-26T12:00:00+00:00"])
    revision: int = Field(description="Revision of its last change at that time.", examples=[12])
    documents: int = Field(description="Documents in it.", examples=[200])
    sampled: int = Field(description="Documents that were drawn and asked with.", examples=[200])
    recall: float = Field(description="Share of the exact ten nearest that a search finds.", examples=[0.99])
    found: float = Field(
        description="Share of drawn documents that are among the ten nearest to their own opening.", examples=[0.97]
    )
    min_scores: dict[str, float] = Field(
        description="A score that 1 in 1,000 unrelated documents exceeds, by language of the query; `all`: any.",
        examples=[{"de": 0.36, "all": 0.43}],
    )
    language_bias: float = Field(
        description="The most that a document's language alone adds to a cosine, on average.", examples=[0.03]
    )
    cut: float = Field(description="Share of documents longer than the model reads.", examples=[0.1])
    hubs: int = Field(description="Documents that are near to too many queries.", examples=[0])


class SearchedInfo(BaseModel):
    """Documents, and the index over them."""

    backend: str = Field(description="The kind of index; faiss-flat is exact.", examples=["faiss-flat"])
    documents: int = Field(description="Documents in it.", examples=[200])
    size_bytes: int = Field(description="Memory of their vectors.", examples=[312_800])
    recall: float | None = Field(
        description="Share of the 10 nearest that a search finds, measured when the index was built; 1 if exact; "
        "null if not measured.",
        examples=[1.0],
    )


class IndexInfo(SearchedInfo):
    """The document index."""

    report: ReportInfo | None = Field(description="The last `crosslet index report`; null: none.", examples=[None])


class CollectionInfo(SearchedInfo):
    """A named set of documents, and the index over it."""

    name: str = Field(description="Its name.", examples=["shop"])


class InfoResponse(BaseModel):
    """The model, the limits and the index of the service."""

    model: str = Field(description="Name of the model.", examples=["default"])
    is_fallback: bool = Field(
        description="Whether it replaces CROSSLET_MODEL, which gives wrong vectors on this CPU.", examples=[False]
    )
    fingerprint: str = Field(description="Identity of its vector space.", examples=["6f9a3a69"])
    dim: int = Field(description="Length of a vector.", examples=[384])
    max_length: int = Field(description="Tokens it reads, including special tokens.", examples=[128])
    languages: list[str] = Field(description="ISO codes it was trained on.", examples=[["de", "en"]])
    precision: str = Field(description="int8 or fp32.", examples=["int8"])
    parameters: int = Field(description="Number of its weights.", examples=[10_000_000])
    model_id: str = Field(description="The model's name, for TEI's clients.", examples=["default"])
    max_input_length: int = Field(description="max_length, for TEI's clients.", examples=[128])
    max_client_batch_size: int = Field(
        description="limits.max_texts, for TEI's clients, which split their requests by it.", examples=[512]
    )
    auto_truncate: Literal[True] = Field(
        description="Always true: long texts are truncated unless a request has truncate=false.", examples=[True]
    )
    prompts: dict[str, str] = Field(
        description="The model's prompts, by `prompt_name`; an empty text means no prompt.",
        examples=[{"query": "query: ", "document": "passage: "}],
    )
    default_prompt_name: str | None = Field(
        description="The prompt of texts for which none is named; null: no prompt. Search queries and documents use "
        "the prompts named query and document (or passage) if there are any.",
        examples=[None],
    )
    min_scores: dict[str, float] = Field(
        description="Recommended `min_score` of a search by language, `all` for any; empty where none was measured.",
        examples=[{"de": 0.36, "all": 0.43}],
    )
    white_space_stripped_by: Literal["model", "service"] = Field(
        description="White space at the ends of a text changes no vector: the model's own tokenizer leaves it out, or "
        "the service does before it.",
        examples=["service"],
    )
    spaces: list[SpaceInfo] = Field(description="Vector spaces of other models, for `space`.", examples=[[]])
    document_space: str | None = Field(
        description="The space of documents and search queries; null: the model's own.", examples=[None]
    )
    reranker: RerankerInfo | None = Field(
        description="What scores pairs (CROSSLET_RERANKER); null: the model's cosines do.", examples=[None]
    )
    limits: Limits = Field(description="The limits in force.", examples=[{"max_texts": 512, "max_top_k": 1000}])
    index: IndexInfo = Field(
        description="Where documents of the default collection are searched, and how many.",
        examples=[{"backend": "faiss-flat", "documents": 200, "size_bytes": 312_800, "recall": 1.0, "report": None}],
    )
    collections: list[CollectionInfo] = Field(
        description="The same for every collection, `default` first.",
        examples=[[{"name": "shop", "backend": "faiss-flat", "documents": 200, "size_bytes": 308_800, "recall": 1.0}]],
    )
    version: str = Field(description="Version of crosslet.", examples=["0.1.0"])


class StatusResponse(BaseModel):
    """The answer to a probe."""

    status: Literal["ok"] = Field(description="Always ok.", examples=["ok"])


SHOP = {"name": "shop", "backend": "faiss-flat", "documents": 200, "size_bytes": 308_800, "recall": 1.0}


class CollectionsOut(BaseModel):
    """All collections."""

    collections: list[CollectionInfo] = Field(description="By age, `default` first.", examples=[[SHOP]])


class DropCollectionResponse(BaseModel):
    """What was removed."""

    dropped: str = Field(description="The collection's name.", examples=["shop"])
    documents: int = Field(description="How many documents it had.", examples=[200])
