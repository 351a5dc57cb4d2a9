"""cohere: embed and rerank by both of its APIs."""

import cohere
from given import KEY, QUERY, TEXTS, URL, show

v1, v2 = cohere.Client(KEY, base_url=URL), cohere.ClientV2(KEY, base_url=URL)
asked = {"model": "any", "input_type": "search_document"}
rankings = {
    name: [(hit.index, hit.relevance_score) for hit in client.rerank(model="any", query=QUERY, documents=TEXTS).results]
    for name, client in (("v1", v1), ("v2", v2))
}
show(
    {
        "v1": v1.embed(texts=TEXTS, **asked).embeddings,
        "v1 by type": v1.embed(texts=TEXTS, embedding_types=["float"], **asked).embeddings.float_,
        "v2": v2.embed(texts=TEXTS, embedding_types=["float"], **asked).embeddings.float_,
    },
    rankings,
)
