"""openai: one text, several, and floats in place of base64."""

import openai
from given import KEY, TEXTS, URL, show

client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY)
several = client.embeddings.create(model="any", input=TEXTS)
alone = [client.embeddings.create(model="any", input=text).data[0].embedding for text in TEXTS]
floats = client.embeddings.create(model="any", input=TEXTS, encoding_format="float")
show(
    {
        "several": [item.embedding for item in several.data],
        "alone": alone,
        "floats": [item.embedding for item in floats.data],
    }
)
