"""The clients that people point at the service. `make test-clients` runs those that PyPI or npm has, each in its own
environment; of the others, tests send what they send. `scripts/reference.py` writes docs/reference/clients.md of it.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Client:
    """A client that runs.  says: what a user sets, and what then works.  script: in `scripts/`."""

    name: str
    packages: tuple[str, ...]
    says: str
    script: str
    kind: Literal["python", "node"] = "python"


@dataclass(frozen=True)
class Recorded:
    """A client that cannot run here: its requests were read in its code, and are sent by a test.

    name: of the request in tests/service/api/test_recorded_clients.py, too.
    """

    name: str
    says: str


CLIENTS = (
    Client("openai", ("openai==3.57.0",), "`base_url` with `/v1`", "of_openai.py"),
    Client(
        "langchain-openai",
        ("langchain-openai==1.7.4",),
        "`OpenAIEmbeddings(base_url=…)` with [the extra for token ids](../guide/clients.md#token-ids), or with "
        "`check_embedding_ctx_length=False`",
        "of_langchain_openai.py",
    ),
    Client("cohere", ("cohere==7.3.1",), "`Client` and `ClientV2` with `base_url`: embed, rerank", "of_cohere.py"),
    Client(
        "langchain-cohere",
        ("langchain-cohere==0.6.0",),
        "`CohereEmbeddings(base_url=…)`, `CohereRerank(base_url=…)`",
        "of_langchain_cohere.py",
    ),
    Client(
        "llama-index",
        (
            *("llama-index-embeddings-openai==0.7.0", "llama-index-embeddings-text-embeddings-inference==0.6.0"),
            "llama-index-postprocessor-cohere-rerank==0.10.0",
        ),
        "`OpenAIEmbedding(model_name=…, api_base=…/v1)`, `TextEmbeddingsInference` and `CohereRerank` with `base_url`",
        "of_llama_index.py",
    ),
    Client(
        "haystack",
        ("haystack-ai==3.4.1", "huggingface-api-haystack==3.1.0"),
        "`OpenAITextEmbedder` and `OpenAIDocumentEmbedder`, `api_base_url=…/v1`; `HuggingFaceAPITextEmbedder`, "
        "`HuggingFaceAPIDocumentEmbedder` and `HuggingFaceTEIRanker` with the address",
        "of_haystack.py",
    ),
    Client(
        "huggingface_hub",
        ("huggingface_hub==2.4.0", "numpy>=2,<3"),
        "`InferenceClient(base_url=…)`: feature_extraction",
        "of_huggingface_hub.py",
    ),
    Client("ollama", ("ollama==0.6.3",), "`Client(host=…)`: embed, embeddings, list", "of_ollama.py"),
    Client(
        "langchain-ollama", ("langchain-ollama==1.1.0",), "`OllamaEmbeddings(base_url=…)`", "of_langchain_ollama.py"
    ),
    Client(
        "litellm",
        ("litellm==1.110.2",),
        '`embedding(model="openai/…", api_base=…/v1)`, `rerank(model="cohere/…", api_base=…)` or `jina_ai/…`. Not '
        "`infinity/…`: it reads a result's `document` as a string, where Cohere's and Jina's clients read an object "
        "from the same request",
        "of_litellm.py",
    ),
    Client("openai (JavaScript)", ("openai@7.59.0",), "`baseURL` with `/v1`", "of_openai.mjs", "node"),
    Client(
        "@langchain/openai (JavaScript)",
        ("@langchain/openai@1.6.0", "@langchain/core@1.4.0"),
        "`configuration: {baseURL: …/v1}`",
        "of_langchain.mjs",
        "node",
    ),
    Client(
        "LlamaIndex (JavaScript)",
        ("@llamaindex/openai@0.4.23",),
        "`new OpenAIEmbedding({baseURL: …/v1})`",
        "of_llamaindex.mjs",
        "node",
    ),
    Client("ollama (JavaScript)", ("ollama@0.6.4",), "`new Ollama({host: …})`", "of_ollama.mjs", "node"),
    Client(
        "cohere-ai (JavaScript)",
        ("cohere-ai@8.1.0",),
        "`new CohereClientV2({environment: …})`",
        "of_cohere.mjs",
        "node",
    ),
)

RECORDED = (
    Recorded("Open WebUI", "embeddings by OpenAI's URL with `/v1`; re-ranking by the whole URL of `/v1/rerank`"),
    Recorded("AnythingLLM", "its OpenAI-compatible embedder, base path with `/v1`"),
    Recorded("n8n", "OpenAI's node with the base URL; its menu lists models whose names hold `embed`"),
    Recorded("Dify (OpenAI-compatible)", "embeddings and re-ranking with `/v1`"),
    Recorded("Dify (TEI)", "embeddings with the address alone, re-ranking with `/reranker` after it"),
    Recorded(
        "LibreChat",
        "rag_api with `RAG_OPENAI_BASEURL`, and with [the extra for token ids](../guide/clients.md#token-ids) or "
        "`RAG_CHECK_EMBEDDING_CTX_LENGTH=False`; re-ranking as Jina",
    ),
    Recorded("RAGFlow", "OpenAI-API-compatible with `/v1`, or Hugging Face (TEI) with the address alone"),
    Recorded("Meilisearch", "a REST embedder for `/v1/embeddings`, or source `ollama` with `/api/embed`"),
)
