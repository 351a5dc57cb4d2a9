import unicodedata
from collections import Counter
from typing import Any

import numpy as np
import orjson
import pytest
from fastapi.testclient import TestClient

from service.documents.document import Document
from service.documents.filters import MAX_VALUE_BYTES
from tests.artifacts import DIM
from tests.contract.filter_oracle import matches, varied_metadata
from tests.service.api.answers import assert_refused, put
from tests.service.conftest import Serve

METADATA: list[dict[str, Any]] = [
    {"lang": "de", "tags": ["a", "b"], "year": 2020, "new": True, "source": {"site": "x"}},
    {"lang": "de", "tags": ["b", "b"], "year": 2020.0, "new": False, "source": [{"site": "x"}, {"site": "y"}]},
    {"lang": "en", "tags": [], "year": 2020.5, "new": True},
    {"lang": None, "year": "2020", "tags": "b"},
    {"lang": "x" * (MAX_VALUE_BYTES + 1)},
]


def put_metadata(client: TestClient, metadata: list[dict[str, Any]] = METADATA) -> TestClient:
    documents = ({"id": str(n), "text": f"hallo {n}", "metadata": one} for n, one in enumerate(metadata))
    assert put(client, *documents).status_code == 200
    return client


def counted(client: TestClient, **body: Any) -> dict[str, Any]:
    response = client.post("/documents/count", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_each_value_is_counted_once_a_document(client: TestClient) -> None:
    answer = counted(put_metadata(client), facets=["lang", "tags", "year", "new", "source.site", "nothing"])
    assert answer["count"] == len(METADATA)
    assert answer["facets"] == {
        "lang": {"de": 2, "en": 1},  # neither null nor a text too long for a category
        "tags": {"b": 3, "a": 1},
        "year": {"2020": 3, "2020.5": 1},  # 2020 and 2020.0 are one number; "2020" is spelled like it
        "new": {"true": 2, "false": 1},
        "source.site": {"x": 2, "y": 1},
        "nothing": {},
    }
    assert [list(values) for values in answer["facets"].values()][1] == ["b", "a"]
    assert "facets_cut" not in answer
    assert counted(client) == {"count": len(METADATA)}


@pytest.mark.parametrize(
    ("values", "spelled"),
    [
        ([1, "1", 1.0], ["1"]),
        ([True, "true", False, "False"], ["False", "false", "true"]),
        ([0.5, "0.5", "0.50"], ["0.5", "0.50"]),
        ([1e300, 1e-7, 7.0], [orjson.dumps(1e300).decode(), "1e-7", "7"]),
        ([-(2**63), -(2.0**63), str(-(2**63))], [str(-(2**63))]),
        ([2**63 - 1, 2.0**63, str(2**63 - 1)], [str(2**63 - 1), "9.223372036854776e+18"]),
        ([2**53 + 1, 2.0**53, 2**53], [str(2**53), str(2**53 + 1)]),
        (["é", "e\u0301"], ["é"]),
        ([1, True, None, [1], {"x": 1}], ["1", "true"]),
    ],
)
def test_a_document_counts_once_for_each_spelled_value(
    client: TestClient, values: list[Any], spelled: list[str]
) -> None:
    put_metadata(client, [{"e\u0301": values}])
    expected = dict.fromkeys(spelled, 1)
    assert counted(client, facets=["é"])["facets"] == {"é": expected}
    assert counted(client, facets=["é"], filter={"é": {"exists": True}})["facets"] == {"é": expected}


def test_values_of_two_types_are_merged_before_the_limit(serve: Serve) -> None:
    client = serve(max_facet_values=1)
    put_metadata(client, [{"x": one} for one in [7, "7", 7.0, "7", *["b"] * 3]])
    assert counted(client, facets=["x"]) == {"count": 7, "facets": {"x": {"7": 4}}, "facets_cut": ["x"]}
    assert counted(client, facets=["x"], filter={"x": {"ne": "b"}})["facets"] == {"x": {"7": 4}}
    assert "facets_cut" not in counted(client, facets=["x"], filter={"x": {"ne": "b"}})


def test_counts_are_those_of_plain_python(client: TestClient) -> None:
    metadata = varied_metadata(300, seed=3)
    put_metadata(client, metadata)
    for filter_ in (None, {"x": {"exists": True}}, {"y": {"gte": 0}}, {"not": {"x": 1}}, {"or": [{"y": True}]}):
        answer = counted(client, facets=["x", "y", "ключ"], filter=filter_)
        chosen = [one for one in metadata if filter_ is None or matches(filter_, one)]
        assert answer["count"] == len(chosen)
        for key, counts in answer["facets"].items():
            expected = Counter(value for one in chosen if key in one for value in spellings(one[key]))
            assert counts == dict(expected)
            assert [*counts] == sorted(expected, key=lambda value: (-expected[value], value))


def spellings(value: Any) -> set[str]:
    """How the values of a field are spelled, each once."""
    elements = value if isinstance(value, list) else [value]
    whole = [
        int(one) if isinstance(one, float) and one.is_integer() and -(2**63) <= one < 2**63 else one for one in elements
    ]
    texts = {unicodedata.normalize("NFC", one) for one in whole if isinstance(one, str)}
    return texts | {orjson.dumps(one).decode() for one in whole if isinstance(one, bool | int | float)}


def test_facets_count_all_documents_of_the_filter(client: TestClient) -> None:
    put_metadata(client)
    body = {"query": "hallo 0", "top_k": 1, "filter": {"year": {"gte": 2020}}, "facets": ["lang"]}
    answer = client.post("/search", json=body).json()
    assert len(answer["results"]) == 1
    assert answer["facets"] == {"lang": {"de": 2, "en": 1}}
    assert set(answer) - {"confidence", "answered", "confidence_is_null"} == {"results", "facets", "total", "took_ms"}


@pytest.mark.parametrize(("path", "body"), [("/search", {"query": "a"}), ("/documents/count", {})])
def test_too_many_facets_are_refused_with_both_numbers(serve: Serve, path: str, body: Any) -> None:
    response = serve(max_facets=2).post(path, json={**body, "facets": ["a", "b", "c"]})
    assert_refused(response, 422, "Validation", "facets has 3 fields; the limit is 2 (CROSSLET_MAX_FACETS)")


def test_counting_is_given_up_as_a_slow_filter_is(serve: Serve) -> None:
    client = serve(request_timeout_s=0.001)
    collection = client.app.state.runtime.collection  # type: ignore[attr-defined]
    vectors_ND = np.eye(1, DIM, dtype=np.float32)
    documents = [Document(str(n), "hallo", {"x": list(range(500))}) for n in range(200)]
    collection.put(documents, vectors_ND.repeat(len(documents), axis=0))
    response = client.post("/documents/count", json={"facets": ["x"]})
    assert_refused(response, 422, "Validation", "longer than 0.001 s (CROSSLET_REQUEST_TIMEOUT_S)")
