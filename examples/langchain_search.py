"""LangChain: crosslet as embeddings of any vector store, and its own search as a retriever.

make serve                                              # in another terminal
.venv-dev/bin/python examples/langchain_search.py
"""

import os

import httpx
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

URL = os.environ.get("CROSSLET_URL", "http://127.0.0.1:8080")
TEXTS = ["Wie kann ich mein Passwort zurücksetzen?", "¿Cuándo abre la tienda?", "Livrez-vous en Suisse ?"]


class CrossletRetriever(BaseRetriever):
    """Searches the documents of a service, by meaning and by words."""

    url: str
    top_k: int = 3

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        request = {"query": query, "top_k": self.top_k, "include": ["text", "metadata"]}
        answer = httpx.post(f"{self.url}/search", json=request, timeout=30, trust_env=False).raise_for_status()
        return [
            Document(one["text"], metadata=one["metadata"] | {"id": one["id"], "score": one["score"]})
            for one in answer.json()["results"]
        ]


def main() -> None:
    embeddings = OpenAIEmbeddings(  # texts as they are: token ids of another tokenizer mean nothing here
        base_url=f"{URL}/v1", api_key=SecretStr("unused"), model="crosslet", check_embedding_ctx_length=False
    )
    store = InMemoryVectorStore.from_texts(TEXTS, embeddings)
    print("embeddings:", store.similarity_search("I forgot my password", k=1)[0].page_content)

    documents = [{"id": f"langchain-{number}", "text": text} for number, text in enumerate(TEXTS)]
    httpx.put(f"{URL}/documents", json={"documents": documents}, timeout=30, trust_env=False).raise_for_status()
    print("retriever:", CrossletRetriever(url=URL).invoke("Do you ship to Switzerland?")[0].page_content)


if __name__ == "__main__":
    main()
