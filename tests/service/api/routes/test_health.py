"""Probes, GET /info, and the metrics that requests leave."""

import pytest
from fastapi.testclient import TestClient

from tests.artifacts import DIM, MAX_LENGTH
from tests.service.api.answers import put


def test_probes_and_info_answer(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ok"}
    info = client.get("/info").json()
    assert (info["model"], info["dim"], info["max_length"]) == ("tiny", DIM, MAX_LENGTH)
    assert info["limits"]["max_texts"] == 512
    assert info["min_scores"] == {}
    assert info["white_space_stripped_by"] == "service"  # a zero-width space is a piece of its tokenizer
    # By these, clients of text-embeddings-inference size their requests (continuedev/continue: HuggingFaceTEI.ts).
    assert (info["model_id"], info["max_client_batch_size"], info["max_input_length"]) == ("tiny", 512, MAX_LENGTH)
    assert next(iter(info["model_type"])) == "embedding"  # Dify reads the first key


@pytest.mark.parametrize("path", ["/info", "/reranker/info"])
def test_typed_clients_of_tei_decode_what_it_says(client: TestClient, path: str) -> None:
    info = client.get(path).json()
    whole = {"max_concurrent_requests": 512, "max_client_batch_size": 512, "tokenization_workers": 2}
    whole |= {"max_input_length": MAX_LENGTH, "max_batch_tokens": MAX_LENGTH}  # this model takes a text a pass
    told = {"model_sha": client.get("/info").json()["fingerprint"], "model_dtype": "fp32", "auto_truncate": True}
    assert info | whole | told == info
    if path == "/reranker/info":
        assert info["model_type"] == {"reranker": {"id2label": {}, "label2id": {}}}


def test_metrics_count_what_happened(client: TestClient) -> None:
    client.post("/embed", json={"inputs": ["hallo", "guitar " * 50]})
    put(client, {"id": "a/b", "text": "hallo"})
    client.get("/documents/a/b")
    text = client.get("/metrics").text
    assert {
        'crosslet_requests_total{route="/embed",status="200"} 1.0',
        'crosslet_requests_total{route="/documents/{document_id:path}",status="200"} 1.0',
        "crosslet_truncated_inputs_total 1.0",
        "crosslet_index_documents 1.0",
        f"crosslet_index_bytes {DIM * 4 + 8}.0",
        "crosslet_queue_depth 0.0",
        "crosslet_memory_budget_bytes 0.0",
        'crosslet_request_duration_seconds_count{route="/embed"} 1.0',
        "crosslet_inference_duration_seconds_count 2.0",
        "crosslet_queue_duration_seconds_count 2.0",
    } <= set(text.splitlines())
    assert "_created" not in text
    assert 'crosslet_build_info{fingerprint="' in text
    assert float(text.split("\ncrosslet_process_resident_bytes ")[1].split()[0]) > 1e7


def test_static_files_count_under_their_mount(client: TestClient) -> None:
    assert client.get("/docs/static/swagger-ui.css").status_code == 200
    assert client.get("/docs/static/nope").status_code == 404
    assert client.get("/nope").status_code == 404
    lines = client.get("/metrics").text.splitlines()
    for route, status in (("/docs/static", 200), ("/docs/static", 404), ("unmatched", 404)):
        assert f'crosslet_requests_total{{route="{route}",status="{status}"}} 1.0' in lines
