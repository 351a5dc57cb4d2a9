"""langchain-openai: documents and a query."""

from given import KEY, TEXTS, URL, show
from langchain_openai import OpenAIEmbeddings

embeddings = OpenAIEmbeddings(base_url=f"{URL}/v1", api_key=KEY, model="any", check_embedding_ctx_length=False)
show({"documents": embeddings.embed_documents(TEXTS), "queries": [embeddings.embed_query(text) for text in TEXTS]})
