"""langchain-openai: documents and queries, as token ids of cl100k_base, its default, and as text."""

from given import KEY, TEXTS, URL, show
from langchain_openai import OpenAIEmbeddings

ids = OpenAIEmbeddings(base_url=f"{URL}/v1", api_key=KEY)
texts = OpenAIEmbeddings(base_url=f"{URL}/v1", api_key=KEY, model="any", check_embedding_ctx_length=False)
show(
    {f"{kind}, documents": client.embed_documents(TEXTS) for kind, client in (("ids", ids), ("texts", texts))}
    | {f"{kind}, queries": [*map(client.embed_query, TEXTS)] for kind, client in (("ids", ids), ("texts", texts))}
)
