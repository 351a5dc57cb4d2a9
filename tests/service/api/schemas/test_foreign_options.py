"""No option that would change an answer is ignored on the routes that other APIs' clients use."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.service.api.answers import error_of

EMBED: tuple[str, dict[str, Any]] = ("/embed", {"inputs": "hallo"})
OPENAI: tuple[str, dict[str, Any]] = ("/v1/embeddings", {"input": "hallo"})
COMPARE: tuple[str, dict[str, Any]] = ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}})
TEXTS: tuple[str, dict[str, Any]] = ("/rerank", {"query": "a", "texts": ["b", "c"]})
DOCUMENTS: tuple[str, dict[str, Any]] = ("/v1/rerank", {"query": "a", "documents": ["b", "c"]})
EVERYWHERE = (EMBED, OPENAI, COMPARE, TEXTS, DOCUMENTS)


def sentence(client: TestClient, request: tuple[str, dict[str, Any]], options: dict[str, Any]) -> str:
    path, body = request
    response = client.post(path, json=body | options)
    assert response.status_code == 422, response.text
    return error_of(response)


@pytest.mark.parametrize(
    ("requests", "options", "advice"),
    [
        (EVERYWHERE[:2], {"output_dimension": 8}, "send dimensions"),
        (EVERYWHERE[:2], {"embedding_types": ["int8"]}, "vectors are float32"),
        (EVERYWHERE[:2], {"output_dtype": "binary"}, "vectors are float32"),
        (EVERYWHERE[:2], {"late_chunking": True}, "never depends on other texts"),
        (EVERYWHERE[:2], {"task": "retrieval.query"}, "send input_type or prompt_name"),
        ([EMBED], {"encoding_format": "base64"}, "POST /v1/embeddings"),
        ([EMBED], {"parameters": {"truncate": False}}, "beside inputs"),
        (EVERYWHERE, {"truncation": False}, "send truncate"),
        (EVERYWHERE, {"truncate_prompt_tokens": 5}, "leave it out"),
        (EVERYWHERE, {"add_special_tokens": False}, "leave it out"),
        ([COMPARE], {"truncate": False}, "send it in parameters"),
        ([COMPARE], {"truncation_direction": "Left"}, "send it in parameters"),
        ([COMPARE], {"prompt_name": "query"}, "send it in parameters"),
        ([COMPARE], {"dimensions": 8}, "whole vectors are compared"),
        ([TEXTS], {"top_k": 1}, "send top_n"),
        ([TEXTS], {"return_documents": True}, "send return_text"),
        ([DOCUMENTS], {"top_k": 1}, "send top_n"),
        ([DOCUMENTS], {"return_text": True}, "send return_documents"),
        ([DOCUMENTS], {"raw_scores": True}, "send texts to POST /rerank"),
        ([DOCUMENTS], {"max_chunks_per_doc": 10}, "send windows: true"),
        ([TEXTS, DOCUMENTS], {"input_type": "query"}, "the model's own prompts"),
        ([TEXTS, DOCUMENTS], {"space": "all-MiniLM-L6-v2"}, "the model's own space"),
        ([TEXTS, DOCUMENTS], {"dimensions": 8}, "whole vectors are compared"),
    ],
)
def test_what_would_change_the_answer_is_refused_with_a_way_out(
    client: TestClient, requests: list[tuple[str, dict[str, Any]]], options: dict[str, Any], advice: str
) -> None:
    for request in requests:
        error = sentence(client, request, options)
        assert error.startswith(f"{next(iter(options))} has no effect here: ")
        assert advice in error


def test_options_of_a_comparisons_parameters_are_refused_too(client: TestClient) -> None:
    error = sentence(client, COMPARE, {"parameters": {"dimensions": 8}})
    assert error == "parameters: dimensions has no effect here: whole vectors are compared, leave it out"


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        (EMBED, {"embedding_types": ["float"], "encoding_format": "float", "late_chunking": False, "parameters": {}}),
        (EMBED, {"output_dimension": None, "truncation": True, "drop_params": True, "keep_alive": "5m"}),
        (EMBED, {"truncate": None, "normalize": None, "dimensions": None, "prompt_name": None}),  # as TEI's clients
        (EMBED, {"truncation_direction": "Right", "prompt_name": None, "normalize": True, "truncate": True}),
        (OPENAI, {"model": None, "encoding_format": None, "dimensions": None, "user": None}),
        (OPENAI, {"truncate_prompt_tokens": -1, "truncation_side": "right", "user": "me", "priority": 0}),
        (OPENAI, {"embedding_type": "float", "normalized": True, "dimensions": None}),
        (COMPARE, {"truncate": True, "truncation_direction": "Right", "prompt_name": None, "normalize": False}),
        (TEXTS, {"return_documents": False, "top_n": None, "truncation_direction": "Right", "raw_scores": False}),
        (DOCUMENTS, {"raw_scores": False, "max_chunks_per_doc": 1, "max_tokens_per_doc": 4096, "model": "any"}),
        (DOCUMENTS, {"max_tokens_per_doc": None, "return_embeddings": False}),
        (DOCUMENTS, {"top_n": None, "return_documents": None, "model": None}),
        (TEXTS, {"raw_scores": None, "return_text": None, "truncate": None, "truncation_direction": None}),
    ],
)
def test_what_changes_nothing_is_taken(
    client: TestClient, request_: tuple[str, dict[str, Any]], options: dict[str, Any]
) -> None:
    path, body = request_
    given, plain = (client.post(path, json=one).json() for one in (body | options, body))
    assert {**given, "id": ""} == {**plain, "id": ""} if isinstance(plain, dict) else given == plain


@pytest.mark.parametrize("options", [{"max_tokens_per_doc": 3}, {"max_tokens_per_doc": 4096, "windows": True}])
def test_a_cut_that_the_model_does_not_make_is_refused(client: TestClient, options: dict[str, Any]) -> None:
    assert sentence(client, DOCUMENTS, options).startswith("max_tokens_per_doc ")
