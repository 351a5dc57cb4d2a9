"""Embeddings through OpenAI's own client: only the base URL is another.

make serve                                              # in another terminal
.venv-dev/bin/python examples/openai_client.py
"""

import os

import httpx2
from openai import OpenAI

URL = os.environ.get("CROSSLET_URL", "http://127.0.0.1:8080")
TEXTS = ["Where is my parcel?", "Wo ist mein Paket?", "How do I bake bread?"]


def main() -> None:
    client = OpenAI(base_url=f"{URL}/v1", api_key="unused", http_client=httpx2.Client(trust_env=False))
    model = client.models.list().data[0].id
    vectors = [one.embedding for one in client.embeddings.create(model=model, input=TEXTS).data]
    for text, vector in zip(TEXTS[1:], vectors[1:], strict=True):
        cosine = sum(left * right for left, right in zip(vectors[0], vector, strict=True))  # vectors have norm 1
        print(f"{cosine:.2f}  {TEXTS[0]} | {text}")


if __name__ == "__main__":
    main()
