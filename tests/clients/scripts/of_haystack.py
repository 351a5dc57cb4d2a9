"""Haystack: OpenAI's embedders, and those of TEI."""

from given import KEY, TEXTS, URL, show
from haystack import Document
from haystack.components.embedders import (
    HuggingFaceAPIDocumentEmbedder,
    HuggingFaceAPITextEmbedder,
    OpenAIDocumentEmbedder,
    OpenAITextEmbedder,
)
from haystack.utils import Secret

key = Secret.from_token(KEY)
openai = {"api_base_url": f"{URL}/v1", "api_key": key, "model": "any"}
tei = {"api_type": "text_embeddings_inference", "api_params": {"url": URL}, "token": key}
documents = [Document(content=text) for text in TEXTS]
embedders = {
    "openai documents": OpenAIDocumentEmbedder(**openai, progress_bar=False),
    "tei documents": HuggingFaceAPIDocumentEmbedder(**tei, progress_bar=False),
}
show(
    {
        "openai": [OpenAITextEmbedder(**openai).run(text)["embedding"] for text in TEXTS],
        "tei": [HuggingFaceAPITextEmbedder(**tei).run(text)["embedding"] for text in TEXTS],
        **{name: [found.embedding for found in one.run(documents)["documents"]] for name, one in embedders.items()},
    }
)
