"""langchain-huggingface: the endpoint is the service."""

from given import KEY, TEXTS, URL, show
from langchain_huggingface import HuggingFaceEndpointEmbeddings

embeddings = HuggingFaceEndpointEmbeddings(model=URL, huggingfacehub_api_token=KEY)
show({"documents": embeddings.embed_documents(TEXTS), "queries": [embeddings.embed_query(text) for text in TEXTS]})
