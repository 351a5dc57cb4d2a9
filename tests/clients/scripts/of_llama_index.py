"""LlamaIndex: OpenAI's embeddings, TEI's, and Cohere's re-ranker."""

from given import KEY, QUERY, TEXTS, URL, show
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.cohere_rerank import CohereRerank

openai = OpenAIEmbedding(model_name="any", api_base=f"{URL}/v1", api_key=KEY)
tei = TextEmbeddingsInference(model_name="any", base_url=URL, auth_token=KEY)  # sent without "Bearer"
reranker = CohereRerank(model="any", api_key=KEY, base_url=URL, top_n=len(TEXTS))
nodes = [NodeWithScore(node=TextNode(id_=str(place), text=text)) for place, text in enumerate(TEXTS)]
ranked = reranker.postprocess_nodes(nodes, query_str=QUERY)
show(
    {"openai": openai.get_text_embedding_batch(TEXTS), "tei": tei.get_text_embedding_batch(TEXTS)},
    {"rerank": [(int(hit.node.node_id), hit.score) for hit in ranked]},
)
