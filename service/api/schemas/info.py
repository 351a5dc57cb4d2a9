"""The JSON of what runs here and of the collections, described field by field."""

from typing import Literal

from pydantic import BaseModel

from service.api.schemas.embed import Listed, Strict, described, optional
from service.documents.recalibration import Recalibration

SHOP = {
    **{"name": "shop", "text": "{title}. {description}", "fields": ["price"]},
    **{"backend": "faiss-flat", "documents": 200, "size_bytes": 308_800, "recall": 1.0},
}


class SpaceInfo(BaseModel):
    """The vector space of another model, into which vectors can be mapped."""

    name: str = described("Its name for `space` in requests.", "all-MiniLM-L6-v2")
    identity: str = described(
        "The other model, and a hash or commit of its files.", "sentence-transformers/all-MiniLM-L6-v2#6f9a3a69"
    )
    dim: int = described("Length of a vector in it.", 384)
    english_cosine: float = described(
        "Mean cosine between mapped vectors of held-out English sentences and the other model's.", 0.9
    )
    other_cosine: float = described(
        "The same for their translations, with the other model's vectors of the English sentences.", 0.8
    )


class RerankerInfo(BaseModel):
    """The model that reads query and passage together."""

    name: str = described("Its name.", "crosslet-reranker")
    fingerprint: str = described("Identity of its scores.", "6f9a3a69")
    max_length: int = described("Tokens of a pair that it reads, specials included.", 256)
    languages: list[str] = described("ISO codes it was trained on.", ["de", "en"])
    precision: str = described("int8 or fp32.", "int8")
    parameters: int = described("Number of its weights.", 10_000_000)
    weight: float | Literal["alone"] = described("How it moves scores (CROSSLET_RERANK_WEIGHT).", 0.2)


class ConfidenceInfo(BaseModel):
    """What the confidence of searches depends on."""

    expected_answerable: float = described("Expected share of queries with an answer.", 0.7)
    min_confidence: float | None = described("Least confidence of a search with results; null: any.", 0.8)


class Limits(BaseModel):
    """The limits of one request."""

    max_texts: int = described("Texts in a request.", 512)
    max_openai_texts: int = described("Texts in a request to /v1/embeddings or /api/embed.", 2048)
    max_text_chars: int = described("Characters of a text.", 100_000)
    max_queue_texts: int = described("Requests are accepted while fewer texts wait.", 512)
    max_body_bytes: int = described("Bytes of a body.", 4_000_000)
    max_top_k: int = described("Largest top_k and largest page.", 1000)
    max_collections: int = described("Named collections, with the default one.", 32)
    max_results: int = described("Results in an answer: queries times top_k.", 10_000)
    max_line_errors: int = described("Errors listed of an upload of lines.", 100)
    max_bad_lines: int = described("Lines in a row without a document that end an upload.", 1000)
    max_facets: int = described("Fields in `facets`.", 20)
    max_facet_values: int = described("Values counted for a field of `facets`.", 100)


class ReportInfo(BaseModel):
    """What `crosslet index report` last measured on the documents of the default collection."""

    made_at: str = described("When.", "2026-11-26T12:00:00+00:00")
    revision: int = described("Revision of its last change at that time.", 12)
    documents: int = described("Documents in it.", 200)
    sampled: int = described("Documents that were drawn and asked with.", 200)
    recall: float = described("Share of the exact ten nearest that a search finds.", 0.99)
    found: float = described(
        "Share of drawn documents that are among the ten nearest to a query made of their words.", 0.97
    )
    min_scores: dict[str, float] = described(
        "A score that 1 in 1,000 unrelated documents exceeds, by language of the query; `all`: any.",
        {"de": 0.36, "all": 0.43},
    )
    model_min_score: float | None = described("What the model recommends; null: nothing.", 0.43)
    language_bias: float = described("The most that a document's language alone adds to a cosine, on average.", 0.03)
    cut: float = described("Share of documents longer than the model reads.", 0.1)
    hubs: int = described("Documents that are near to too many queries.", 0)


class SearchedInfo(BaseModel):
    """Documents, and the index over them."""

    backend: str = described("The kind of index; faiss-flat is exact.", "faiss-flat")
    has_keywords: bool = described("Whether it can be searched by words; else mode is dense.", True)
    documents: int = described("Documents in it.", 200)
    size_bytes: int = described("Memory of their vectors.", 312_800)
    recall: float | None = described(
        "Share of the 10 nearest that a search finds, measured when the index was built; 1 if exact; "
        "null if not measured.",
        1.0,
    )


class IndexInfo(SearchedInfo):
    """The document index."""

    report: ReportInfo | None = described("The last `crosslet index report`; null: none.", None)


class KeyInfo(BaseModel):
    """What the request's key reaches (CROSSLET_API_KEYS)."""

    read: list[str] | None = described("Collections it reads, with those of `write`; null: all.", ["manuals"])
    write: list[str] | None = described("Collections it changes; null: all.", ["shop"])
    max_documents: int | None = described("Most documents of these together; null: no limit.", 1000)
    max_bytes: int | None = described("Most bytes of their ids, texts and metadata; null: no limit.", 5_000_000)


class CollectionInfo(SearchedInfo):
    """A named set of documents, and the index over it."""

    name: str = described("Its name.", "shop")
    text: str | None = described(
        "The template of a document's text, of documents with their own fields; null: they have id, text and metadata.",
        "{title}. {description}",
    )
    fields: list[str] | None = described("Fields kept beside those of `text`; null: all.", ["price"])
    confidence: Recalibration | None = described("How its confidence is recalibrated; null: as the model says.", None)


class TeiInfo(BaseModel):
    """What text-embeddings-inference (TEI) says of itself to its clients."""

    model_id: str = described("The model's name; of a bi-encoder that ranks, it says so.", "default")
    model_sha: str = described("The model's fingerprint.", "6f9a3a69")
    model_dtype: str = described("int8 or fp32.", "int8")
    max_concurrent_requests: int = described("limits.max_queue_texts: as many requests may wait.", 512)
    max_input_length: int = described("Tokens that the model reads.", 128)
    max_batch_tokens: int = described("Most tokens in a forward pass, padding included.", 192)
    max_client_batch_size: int = described("limits.max_texts; clients split their requests by it.", 512)
    tokenization_workers: int = described("Threads that tokenise and encode (CROSSLET_WORKERS).", 2)
    auto_truncate: bool = described(
        "Whether long texts are taken unless a request has truncate=false; false where `long_texts` is refuse.", True
    )
    version: str = described("Version of crosslet.", "0.1.0")


class InfoResponse(TeiInfo):
    """The model, the limits and the index of the service."""

    model: str = described("Name of the model.", "default")
    is_fallback: bool = described("Whether it replaces CROSSLET_MODEL, which gives wrong vectors on this CPU.", False)
    fingerprint: str = described("Identity of its vector space.", "6f9a3a69")
    dim: int = described("Length of a vector.", 384)
    max_length: int = described("Tokens it reads, including special tokens.", 128)
    languages: list[str] = described("ISO codes it was trained on.", ["de", "en"])
    precision: str = described("int8 or fp32.", "int8")
    parameters: int = described("Number of its weights.", 10_000_000)
    long_texts: Literal["cut", "mean", "refuse"] = described(
        "What texts longer than the model reads get (CROSSLET_LONG_TEXTS): the vector of their beginning, the mean of "
        "their passages', or a 422.",
        "cut",
    )
    model_type: dict[str, dict[str, str]] = described(
        "Always embedding, for TEI's clients; the graph pools.", {"embedding": {"pooling": "graph"}}
    )
    prompts: dict[str, str] = described(
        "The model's prompts, by `prompt_name`; an empty text means no prompt.",
        {"query": "query: ", "document": "passage: "},
    )
    default_prompt_name: str | None = described(
        "The prompt of texts for which none is named; null: no prompt. Search queries and documents use "
        "the prompts named query and document (or passage) if there are any.",
        None,
    )
    min_scores: dict[str, float] = described(
        "Recommended `min_score` of a search by language, `all` for any; empty where none was measured.",
        {"de": 0.36, "all": 0.43},
    )
    white_space_stripped_by: Literal["model", "service"] = described(
        "White space at the ends of a text changes no vector: the model's own tokenizer leaves it out, or "
        "the service does before it.",
        "service",
    )
    spaces: list[SpaceInfo] = described("Vector spaces of other models, for `space`.", [])
    confidence: ConfidenceInfo | None = described(
        "Of searches by text, unless by keywords alone or in another `document_space`; null: the model has none.",
        {"expected_answerable": 0.7, "min_confidence": None},
    )
    document_space: str | None = described("The space of documents and search queries; null: the model's own.", None)
    reranker: RerankerInfo | None = described(
        "What scores pairs (CROSSLET_RERANKER); null: the model's cosines do.", None
    )
    limits: Limits = described("The limits in force.", {"max_texts": 512, "max_top_k": 1000})
    index: IndexInfo | None = described(
        "Where documents of the default collection are searched, and how many; null: the key does not reach it.",
        {"backend": "faiss-flat", "documents": 200, "size_bytes": 312_800, "recall": 1.0, "report": None},
    )
    collections: list[CollectionInfo] = described(
        "The same for every collection that the key reaches, `default` first.", [SHOP]
    )
    key: KeyInfo | None = described("What a key of some collections, or with limits, may do; null: no such key.", None)


class StatusResponse(BaseModel):
    """The answer to a probe."""

    status: Literal["ok"] = described("Always ok.", "ok")


class CollectionsOut(BaseModel):
    """All collections."""

    collections: list[CollectionInfo] = described("Those that the key reaches, by age, `default` first.", [SHOP])


class PutCollectionRequest(Strict):
    """What a collection takes of documents with their own fields, and how its confidence is recalibrated."""

    text: str | None = optional(
        "Makes the text that is embedded and found: {title} is a field, {a.b} a field within another, {{ a brace. "
        "null: documents have id, text and metadata.",
        "{title}. {description}",
    )
    fields: Listed[str] | None = optional(
        "Fields to keep as metadata, beside those of `text`; null: all. Filters use them, and results have them.",
        ["price", "lang"],
    )
    confidence: Recalibration | None = optional(
        "As `crosslet index report --queries FILE` fits it. null: as the model says. Left out: as it is.",
        {"expected_answerable": 0.9},
    )


class DropCollectionResponse(BaseModel):
    """What was removed."""

    dropped: str = described("The collection's name.", "shop")
    documents: int = described("How many documents it had.", 200)
