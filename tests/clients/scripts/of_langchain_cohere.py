"""langchain-cohere: documents, a query, and its re-ranker."""

from given import KEY, QUERY, TEXTS, URL, show
from langchain_cohere import CohereEmbeddings, CohereRerank

embeddings = CohereEmbeddings(model="any", base_url=URL, cohere_api_key=KEY)
reranker = CohereRerank(model="any", base_url=URL, cohere_api_key=KEY, top_n=len(TEXTS))
hits = reranker.rerank(TEXTS, QUERY)
show(
    {"documents": embeddings.embed_documents(TEXTS), "queries": [embeddings.embed_query(text) for text in TEXTS]},
    {"rerank": [(hit["index"], hit["relevance_score"]) for hit in hits]},
)
