"""Haystack: OpenAI's embedders of texts and of documents."""

from given import KEY, TEXTS, URL, show
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.utils import Secret

openai = {"api_base_url": f"{URL}/v1", "api_key": Secret.from_token(KEY), "model": "any"}
documents = OpenAIDocumentEmbedder(**openai, progress_bar=False).run([Document(content=text) for text in TEXTS])
show(
    {
        "texts": [OpenAITextEmbedder(**openai).run(text)["embedding"] for text in TEXTS],
        "documents": [document.embedding for document in documents["documents"]],
    }
)
