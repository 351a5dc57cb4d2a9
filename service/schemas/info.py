"""The JSON of what runs here, described field by field. Knows shapes; knows no model."""

from typing import Literal

from pydantic import BaseModel, Field


class SpaceInfo(BaseModel):
    """The vector space of another model, in which the service can answer."""

    name: str = Field(description="What requests call it: `space`.", examples=["all-MiniLM-L6-v2"])
    identity: str = Field(
        description="The other model, and a hash or commit of its files.",
        examples=["sentence-transformers/all-MiniLM-L6-v2#6f9a3a69"],
    )
    dim: int = Field(description="Length of a vector in it.", examples=[384])
    english_cosine: float = Field(
        description="Mean cosine of held-out English sentences to the other model's vectors.", examples=[0.9]
    )
    other_cosine: float = Field(
        description="The same for their translations, to the vectors of the English sentences.", examples=[0.8]
    )


class RerankerInfo(BaseModel):
    """The model that reads query and passage together."""

    name: str = Field(description="Its name.", examples=["crosslet-reranker"])
    fingerprint: str = Field(description="Identity of its scores.", examples=["6f9a3a69"])
    max_length: int = Field(description="Tokens of a pair that it reads, specials included.", examples=[256])
    languages: list[str] = Field(description="ISO codes it was trained on.", examples=[["de", "en"]])
    precision: str = Field(description="int8 or fp32.", examples=["int8"])
    parameters: int = Field(description="Number of its weights.", examples=[10_000_000])


class Limits(BaseModel):
    """What one request may hold."""

    max_texts: int = Field(description="Texts in a request.", examples=[512])
    max_text_chars: int = Field(description="Characters of a text.", examples=[100_000])
    max_queue_texts: int = Field(description="Requests are taken while fewer texts wait.", examples=[512])
    max_body_bytes: int = Field(description="Bytes of a body.", examples=[4_000_000])
    max_top_k: int = Field(description="Largest top_k and largest page.", examples=[1000])
    max_results: int = Field(description="Results in an answer: queries times top_k.", examples=[10_000])


class IndexInfo(BaseModel):
    """The document index."""

    backend: str = Field(description="What searches; faiss-flat is exact.", examples=["faiss-flat"])
    documents: int = Field(description="Documents in it.", examples=[200])
    size_bytes: int = Field(description="Memory of their vectors.", examples=[312_800])
    recall: float | None = Field(
        description="Share of the 10 nearest that a search finds, measured when the index was built; 1 where exact; "
        "null where it was not measured.",
        examples=[1.0],
    )


class InfoResponse(BaseModel):
    """What runs here."""

    model: str = Field(description="Name of the model.", examples=["default"])
    is_fallback: bool = Field(
        description="Whether it stands in for a model that gives other vectors on this CPU.", examples=[False]
    )
    fingerprint: str = Field(description="Identity of its vector space.", examples=["6f9a3a69"])
    dim: int = Field(description="Length of a vector.", examples=[384])
    max_length: int = Field(description="Tokens it reads, specials included.", examples=[128])
    languages: list[str] = Field(description="ISO codes it was trained on.", examples=[["de", "en"]])
    precision: str = Field(description="int8 or fp32.", examples=["int8"])
    parameters: int = Field(description="Number of its weights.", examples=[10_000_000])
    model_id: str = Field(description="The name again, as text-embeddings-inference says it.", examples=["default"])
    max_input_length: int = Field(description="max_length again, as it says it.", examples=[128])
    max_client_batch_size: int = Field(
        description="limits.max_texts again, as it says it: its clients split their requests by this.", examples=[512]
    )
    auto_truncate: Literal[True] = Field(description="Long texts are cut unless truncate is false.", examples=[True])
    prompts: dict[str, str] = Field(
        description="What may go before a text, by `prompt_name`; an empty text means no prompt.",
        examples=[{"query": "query: ", "document": "passage: "}],
    )
    default_prompt_name: str | None = Field(
        description="The prompt of a text for which none is named; null: no prompt. Queries of a search and documents "
        "have the prompts named query and document (or passage) first.",
        examples=[None],
    )
    min_scores: dict[str, float] = Field(
        description="Recommended `min_score` of a search by language, `all` for any; empty where none was measured.",
        examples=[{"de": 0.36, "all": 0.43}],
    )
    spaces: list[SpaceInfo] = Field(description="Vector spaces of other models, by `space` in requests.", examples=[[]])
    document_space: str | None = Field(
        description="The space that documents and queries are in; null: the model's own.", examples=[None]
    )
    reranker: RerankerInfo | None = Field(
        description="What scores pairs (CROSSLET_RERANKER); null: the model's cosines do.", examples=[None]
    )
    limits: Limits = Field(description="The limits in force.", examples=[{"max_texts": 512, "max_top_k": 1000}])
    index: IndexInfo = Field(
        description="Where documents are searched, and how many.",
        examples=[{"backend": "faiss-flat", "documents": 200, "size_bytes": 312_800, "recall": 1.0}],
    )
    version: str = Field(description="Version of crosslet.", examples=["0.1.0"])


class StatusResponse(BaseModel):
    """The answer to a probe."""

    status: Literal["ok"] = Field(description="Always ok.", examples=["ok"])
