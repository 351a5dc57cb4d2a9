"""huggingface_hub: feature extraction, as TEI answers it."""

from given import KEY, TEXTS, URL, show
from huggingface_hub import InferenceClient

client = InferenceClient(base_url=URL, token=KEY)
show(
    {
        "alone": [client.feature_extraction(text)[0] for text in TEXTS],
        "unscaled": [client.feature_extraction(text, normalize=False)[0] for text in TEXTS],
    }
)
