"""What no route for embeddings takes: each says so in the shape of its API, with the limit and the way out."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.artifacts import DIM
from tests.service.api.answers import error_of
from tests.service.conftest import Serve

ROUTES = {
    "/embed": "inputs",
    "/embeddings": "input",
    "/v1/embeddings": "input",
    "/api/embed": "input",
    "/api/embeddings": "prompt",
    "/v1/embed": "texts",
    "/v2/embed": "texts",
}
OPENAIS, COHERES = ("/embeddings", "/v1/embeddings"), ("/v1/embed", "/v2/embed")
OLLAMAS = ("/api/embed", "/api/embeddings")  # an empty input gets no vector
OF_LISTS = [path for path, field in ROUTES.items() if field != "prompt"]
OF_ONE_TEXT = [path for path in ROUTES if path not in COHERES]


@pytest.fixture(scope="module")
def client(serve_module: Serve) -> TestClient:
    return serve_module(max_texts=8, max_openai_texts=9)


def refusal(client: TestClient, path: str, body: dict[str, Any] | bytes, *, status: int = 422) -> str:
    """The sentence of a refusal that has the shape of the path's API."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.post(path, content=content, headers={"content-type": "application/json"})
    assert response.status_code == status, response.text
    answer, sentence = response.json(), error_of(response)
    if path in OPENAIS:
        assert answer["error"] == {
            "message": sentence,
            "type": "invalid_request_error",
            "param": None,
            "code": "Validation",
        }
    else:
        message = {"message": sentence} if path in COHERES else {}
        assert answer == {"error": sentence, "error_type": "Validation"} | message
    return sentence


@pytest.mark.parametrize("path", ROUTES)
def test_dimensions_are_refused_before_computing(client: TestClient, path: str) -> None:
    text: dict[str, Any] = {ROUTES[path]: ["a"] if path in COHERES else "a"}
    name = "output_dimension" if path in COHERES else "dimensions"
    for dimensions in (DIM + 1, 10**6):
        expected = f"{name} is {dimensions}; the model has {DIM}: send at most that, or leave it out"
        assert refusal(client, path, text | {name: dimensions}) == expected
    for dimensions in (0, -1, -(10**30)):
        assert refusal(client, path, text | {name: dimensions}) == f"{name}: Input should be greater than or equal to 1"
    for given in ("5", True, 5.5, [5], {}):
        assert refusal(client, path, text | {name: given}).startswith(f"{name}: Input should be a valid integer")
    assert "crosslet_inference_duration_seconds_count 0.0" in client.get("/metrics").text.splitlines()


@pytest.mark.parametrize("path", OF_LISTS)
def test_a_list_holds_texts_alone_and_not_too_many(client: TestClient, path: str) -> None:
    field = ROUTES[path]
    limit = "8 (CROSSLET_MAX_TEXTS)" if path in {"/embed", *COHERES} else "9 (CROSSLET_MAX_OPENAI_TEXTS)"
    empty = "is empty; every text needs at least one character"
    for texts, expected in (
        *([] if path in OLLAMAS else [([], f"{field} is empty; send at least one text")]),
        ([""], f"{field}[0] {empty}"),
        (["a", ""], f"{field}[1] {empty}"),
        (["a"] * 10_000, f"{field} has 10000 texts; the limit is {limit}"),
        *(
            (["a", other], f"{field}[1]: Input should be a valid string")
            for other in (5, None, [5], ["b"], {"text": "b"})
        ),
    ):
        assert refusal(client, path, {field: texts}) == expected


@pytest.mark.parametrize("path", ROUTES)
def test_what_is_no_text_is_refused_by_its_field(client: TestClient, path: str) -> None:
    field = ROUTES[path]
    for other in (5, 1.5, True, {"text": "a"}, [None], [{"text": "a"}]):
        assert refusal(client, path, {field: other}).startswith(field)
    if path not in OLLAMAS:
        assert refusal(client, path, {field: None}).startswith(field)
        assert refusal(client, path, {}) == f"{field}: Field required"
    for content in (b"null", b"[]", b'"a"'):
        assert refusal(client, path, content).startswith("the body must be a JSON object")
    if path in OF_ONE_TEXT and path not in OLLAMAS:
        assert refusal(client, path, {field: ""}) == f"{field} is empty; every text needs at least one character"


@pytest.mark.parametrize("path", ROUTES)
def test_what_is_no_unicode_is_refused_by_its_place(client: TestClient, path: str) -> None:
    field = ROUTES[path].encode()
    half = refusal(client, path, b'{"%b": ["a", "b\\ud800"]}' % field, status=400)
    assert half.startswith(f"{ROUTES[path]}[1] has half a surrogate pair")
    assert refusal(client, path, b'{"%b": "\xff"}' % field, status=400) == f"{ROUTES[path]} is not valid UTF-8"
    assert refusal(client, path, b'{"%b": NaN}' % field, status=400) == "the body is not valid JSON"


@pytest.mark.parametrize("path", OPENAIS)
@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([5, "a"], "input[1]: Input should be a valid integer"),
        ([5, [5]], "input[1]: Input should be a valid integer"),
        ([5, True], "input[1]: Input should be a valid integer"),
        ([5, 1.5], "input[1]: Input should be a valid integer"),
        ([[5], "a"], "input[1]: Input should be a valid list"),
        ([[5], 5], "input[1]: Input should be a valid list"),
        ([["a"]], "input[0][0]: Input should be a valid integer"),
        ([1.5], "input: send a text, a list of texts, the token ids of a text, or a list of those"),
        ([[5]] * 10_000, "input has 10000 texts; the limit is 9 (CROSSLET_MAX_OPENAI_TEXTS)"),
        ([[5], []], "input[1] is empty; every text needs at least one character"),
        ([[5], [-1]], "input[1] has a token id outside cl100k_base, which has 100277"),
        ([2**70], "input has a token id outside cl100k_base, which has 100277"),
    ],
)
def test_token_ids_are_refused_by_their_place(client: TestClient, path: str, ids: object, expected: str) -> None:
    assert refusal(client, path, {"input": ids}) == expected
