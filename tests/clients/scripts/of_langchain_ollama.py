"""langchain-ollama: documents and a query."""

from given import KEY, TEXTS, URL, show
from langchain_ollama import OllamaEmbeddings

headers = {"headers": {"authorization": f"Bearer {KEY}"}}
embeddings = OllamaEmbeddings(model="any", base_url=URL, client_kwargs=headers)
show({"documents": embeddings.embed_documents(TEXTS), "queries": [embeddings.embed_query(text) for text in TEXTS]})
