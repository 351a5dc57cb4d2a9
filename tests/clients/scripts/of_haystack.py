"""Haystack: OpenAI's embedders of texts and of documents, TEI's embedders and ranker."""

from given import KEY, QUERY, TEXTS, URL, show
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.utils import Secret
from haystack_integrations.components.embedders.huggingface_api import (
    HuggingFaceAPIDocumentEmbedder,
    HuggingFaceAPITextEmbedder,
)
from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker

token = Secret.from_token(KEY)
openai = {"api_base_url": f"{URL}/v1", "api_key": token, "model": "any"}
tei = {"api_type": "text_embeddings_inference", "api_params": {"url": URL}, "token": token}
documents = [Document(id=str(place), content=text) for place, text in enumerate(TEXTS)]
vectors = {}
for name, asked, of_text, of_documents in (
    ("openai", openai, OpenAITextEmbedder, OpenAIDocumentEmbedder),
    ("tei", tei, HuggingFaceAPITextEmbedder, HuggingFaceAPIDocumentEmbedder),
):
    vectors[f"{name}, texts"] = [of_text(**asked).run(text)["embedding"] for text in TEXTS]
    embedded = of_documents(**asked, progress_bar=False).run(documents)["documents"]
    vectors[f"{name}, documents"] = [document.embedding for document in embedded]
ranked = HuggingFaceTEIRanker(url=URL, token=token).run(QUERY, documents)["documents"]
show(vectors, {"tei": [(int(document.id), document.score) for document in ranked]})
