"""ollama: embed, its older route, and the list of models."""

import ollama
from given import KEY, TEXTS, URL, show

client = ollama.Client(host=URL, headers={"authorization": f"Bearer {KEY}"})
model = client.list().models[0].model
show(
    {
        "embed": client.embed(model=model, input=TEXTS).embeddings,
        "alone": [client.embed(model=model, input=text, truncate=False).embeddings[0] for text in TEXTS],
        "embeddings": [client.embeddings(model=model, prompt=text).embedding for text in TEXTS],
    }
)
