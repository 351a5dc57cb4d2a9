"""What Ollama's own client says of refusals; `make test-clients` compares its vectors."""

from contextlib import closing

import httpx
import ollama
import pytest

from tests.contract.conftest import KEY


def connect(service: httpx.Client, **headers: str) -> ollama.Client:
    return ollama.Client(host=str(service.base_url), headers=headers, trust_env=False)


def test_refusals_are_the_clients_own_errors(guarded: httpx.Client, bundled: httpx.Client) -> None:
    with closing(connect(bundled)) as client:
        with pytest.raises(ollama.ResponseError, match=r"input has \d+ tokens; the model reads 256") as refused:
            client.embed(model="any", input="guitar " * 1000, truncate=False)
        assert refused.value.status_code == 422
    with closing(connect(guarded)) as client, pytest.raises(ollama.ResponseError, match="send a known key"):
        client.embed(model="any", input="a")
    with closing(connect(guarded, authorization=f"Bearer {KEY}")) as client:
        assert client.embed(model="any", input="a").embeddings
