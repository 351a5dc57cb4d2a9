"""LangChain's OpenAIEmbeddings with its defaults, which send token ids of cl100k_base."""

from pathlib import Path

import httpx
import numpy as np
import pytest
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

from tests.artifacts import TEXTS
from tests.openai_vocabulary import tiktoken_folder

LONG = "guitar " * 9000  # over what LangChain sends in one piece: it averages the vectors of two


def test_defaults_get_the_vectors_of_embed(
    bundled: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tiktoken_folder(tmp_path)))
    client = OpenAIEmbeddings(base_url=f"{str(bundled.base_url).rstrip('/')}/v1", api_key=SecretStr("unused"))
    expected = np.asarray(bundled.post("/embed", json={"inputs": list(TEXTS)}).json(), np.float32)
    assert client.check_embedding_ctx_length
    assert np.array_equal(np.asarray(client.embed_documents(list(TEXTS)), np.float32), expected)
    assert np.array_equal(np.asarray(client.embed_query(TEXTS[0]), np.float32), expected[0])
    (long_D,) = client.embed_documents([LONG])
    plain_D = bundled.post("/embed", json={"inputs": LONG}).json()[0]
    assert np.dot(long_D, plain_D) > 0.99
