"""The whole application: any body is answered, large answers are compressed, user text stays out of the log."""

import logging

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.artifacts import TEXTS
from tests.service.api.answers import put
from tests.service.conftest import Serve

FIELDS = ("inputs", "input", "query", "queries", "top_k", "filter", "documents", "ids", "dimensions")
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    route=st.sampled_from(["/embed", "/similarity", "/search", "/documents", "/documents/delete", "/v1/embeddings"]),
    body=JSON_VALUES | st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON_VALUES)),
)
def test_no_json_body_makes_the_server_fail(client: TestClient, route: str, body: object) -> None:
    method = "PUT" if route == "/documents" else "POST"
    assert client.request(method, route, json=body).status_code in {200, 422, 400}


def test_an_id_that_could_break_a_log_is_replaced(client: TestClient) -> None:
    response = client.get("/health", headers={"x-request-id": 'a" b'})
    assert len(response.headers["x-request-id"]) == 32


@pytest.mark.parametrize("accepted", ["gzip", "gzip, deflate, br"])
def test_a_large_answer_is_gzip_where_that_is_on_and_accepted(serve: Serve, accepted: str) -> None:
    plain, packed = (
        serve(**options).post("/embed", json={"inputs": list(TEXTS)}, headers={"accept-encoding": accepted})
        for options in ({}, {"gzip_min_bytes": 1000})
    )
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["x-tokens"]) > 0
    assert packed.json() == plain.json()
    assert int(packed.headers["content-length"]) < len(packed.content)


@pytest.mark.parametrize(("inputs", "accepted"), [("a", "gzip"), (list(TEXTS), "identity")])
def test_gzip_is_for_large_answers_that_ask_for_it(serve: Serve, inputs: object, accepted: str) -> None:
    client = serve(gzip_min_bytes=1000)
    answer = client.post("/embed", json={"inputs": inputs}, headers={"accept-encoding": accepted})
    assert "content-encoding" not in answer.headers


def test_user_text_reaches_neither_the_log_nor_an_error(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    secret = "geheimnis"  # noqa: S105 - no password
    with caplog.at_level(logging.DEBUG):
        bodies = [{"inputs": secret}, {"inputs": {secret: secret}}, {"inputs": [secret, 3]}, {"inputs": [secret, ""]}]
        answers = [client.post("/embed", json=body).text for body in bodies]
        answers.append(put(client, {"id": "a", "text": secret, "metadata": secret}).text)
        answers.append(client.post("/search", json={"query": "a", "top_k": secret, "filter": {"x": [secret]}}).text)
        answers.append(client.post("/v1/embeddings", json={"input": "a", "encoding_format": secret}).text)
        answers.append(client.get("/documents", params={"limit": secret}).text)
        # The name of an unknown field is answered, but not logged.
        client.post("/search", json={"query": "a", secret: 1})
        client.post("/similarity", json={"inputs": {"pairs": [["a", "b"]], secret: 1}})
        put(client, {"id": "a", "text": "a", secret: 1})
    logged = [str(vars(record)) for record in caplog.records if record.name.startswith("service")]
    assert any("/embed" in line for line in logged)
    assert not [line for line in logged + answers if secret in line]
