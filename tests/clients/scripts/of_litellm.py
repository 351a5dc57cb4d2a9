"""litellm: OpenAI's embeddings, the re-rankers of Cohere and Jina."""

import litellm
from given import KEY, QUERY, TEXTS, URL, show

embedded = litellm.embedding(model="openai/any", input=TEXTS, api_base=f"{URL}/v1", api_key=KEY)
rankings = {}
for provider in ("cohere", "jina_ai"):
    answer = litellm.rerank(model=f"{provider}/any", query=QUERY, documents=TEXTS, api_base=URL, api_key=KEY)
    rankings[provider] = [(hit["index"], hit["relevance_score"]) for hit in answer.results]
show({"openai": [item["embedding"] for item in embedded.data]}, rankings)
