"""GET /openapi.json and GET /docs: every route, field and answer is described."""

import re
from typing import Any

from fastapi.testclient import TestClient

from tests.service.api.answers import COHERES, put


def operations(client: TestClient) -> list[tuple[str, dict[str, Any]]]:
    paths = client.get("/openapi.json").json()["paths"]
    return [(f"{method} {path}", one) for path, methods in paths.items() for method, one in methods.items()]


def test_every_field_is_described_with_an_example(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert not {"HTTPValidationError", "ValidationError"} & set(schemas)  # the framework's own, never sent
    fields = {f"{name}.{field}": facts for name, one in schemas.items() for field, facts in one["properties"].items()}
    assert [name for name, facts in fields.items() if not (facts.get("description") and facts.get("examples"))] == []


def test_every_route_and_parameter_is_described_with_an_example(client: TestClient) -> None:
    bare = [name for name, one in operations(client) if not (one["summary"] and one["description"])]
    for name, one in operations(client):
        for parameter in one.get("parameters", []):
            described = parameter.get("description") and parameter["schema"].get("examples", parameter.get("examples"))
            if not described:
                bare.append(f"{name} {parameter['name']}")
    assert bare == []


def test_every_schema_that_openapi_names_is_there(client: TestClient) -> None:
    response = client.get("/openapi.json")
    named = set(re.findall(r'"#/components/schemas/(\w+)"', response.text))
    assert named == set(response.json()["components"]["schemas"]) > {"ErrorResponse", "OpenAIErrorResponse"}


def test_every_answer_is_described(client: TestClient) -> None:
    for name, one in operations(client):
        assert {"200", "500"} <= set(one["responses"]), name
        for status, answer in one["responses"].items():
            assert answer["description"], (name, status)
            assert "x-request-id" in answer["headers"], (name, status)
            (content,) = answer["content"].values()
            assert "$ref" in content["schema"] or "example" in content, (name, status)
            if status != "200":
                openais = ("post /embeddings", "post /v1/embeddings", "get /v1/")
                shape = "OpenAI" if name.startswith(openais) else "Cohere" if name.split()[1] in COHERES else ""
                assert content["schema"]["$ref"].endswith(f"/{shape}ErrorResponse"), (name, status)
            if status == "200" and name.endswith("/rerank"):
                assert {"x-reranker", "x-truncated"} <= set(answer["headers"])
            if status == "429":
                assert "retry-after" in answer["headers"]


def test_the_docs_can_send_a_key(client: TestClient) -> None:
    (scheme,) = client.get("/openapi.json").json()["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert {name for name, one in operations(client) if "security" not in one} == {"get /health", "get /ready"}


def test_the_documentation_page_needs_no_other_host(client: TestClient) -> None:
    assert client.get("/", follow_redirects=True).url.path == "/docs"
    page = client.get("/docs").text
    assert "https://" not in page
    for part in page.split('"'):
        if part.startswith("/docs/static"):
            assert client.get(part).status_code == 200


def test_what_the_docs_fill_in_is_a_request_that_works(client: TestClient) -> None:
    """Examples of single fields, all together, would be both a query and queries."""
    put(client, {"id": "de/1", "text": "Ein Mann spielt Gitarre."})
    described = client.get("/openapi.json").json()
    ours = ("/embed", "/tokenize", "/api/embed", "/api/embeddings", "/v2/embed", "/v1/embed")
    for path in (*ours, "/search", "/documents/delete", "/v1/rerank", "/v2/rerank"):
        content = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        example = described["components"]["schemas"][content["$ref"].rpartition("/")[2]]["example"]
        assert client.post(path, json=example).status_code == 200, path
