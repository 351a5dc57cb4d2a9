"""LlamaIndex: crosslet as the embedding model of an index, and its own search as a retriever.

make serve                                              # in another terminal
.venv-dev/bin/python examples/llama_index_search.py
"""

import os

import httpx
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

URL = os.environ.get("CROSSLET_URL", "http://127.0.0.1:8080")
TEXTS = ["Wie kann ich mein Passwort zurücksetzen?", "¿Cuándo abre la tienda?", "Livrez-vous en Suisse ?"]


class CrossletRetriever(BaseRetriever):
    """Searches the documents of a service, by meaning and by words."""

    def __init__(self, url: str, top_k: int = 3) -> None:
        super().__init__()
        self.url, self.top_k = url, top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        request = {"query": query_bundle.query_str, "top_k": self.top_k, "include": ["text", "metadata"]}
        answer = httpx.post(f"{self.url}/search", json=request, timeout=30, trust_env=False).raise_for_status()
        return [
            NodeWithScore(node=TextNode(id_=one["id"], text=one["text"], metadata=one["metadata"]), score=one["score"])
            for one in answer.json()["results"]
        ]


def main() -> None:
    embedding = OpenAILikeEmbedding(model_name="crosslet", api_base=f"{URL}/v1", api_key="unused")
    index = VectorStoreIndex.from_documents([Document(text=text) for text in TEXTS], embed_model=embedding)
    found = index.as_retriever(similarity_top_k=1).retrieve("I forgot my password")
    print("embeddings:", found[0].node.get_content())

    documents = [{"id": f"llama-index-{number}", "text": text} for number, text in enumerate(TEXTS)]
    httpx.put(f"{URL}/documents", json={"documents": documents}, timeout=30, trust_env=False).raise_for_status()
    print("retriever:", CrossletRetriever(URL).retrieve("Do you ship to Switzerland?")[0].node.get_content())


if __name__ == "__main__":
    main()
