"""How many files of the project one request executes, counted by scripts/hops.py."""

import pytest

from scripts.hops import REQUESTS, measure

LIMITS = {  # files below the handler: lower them, never raise them
    "POST /search, dense": 12,
    "POST /search, hybrid with filter, facets and passages": 16,
    "PUT /documents, with chunks": 18,
    "POST /embed": 7,
}


@pytest.fixture(scope="module")
def hops(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return measure(tmp_path_factory.mktemp("hops"))


@pytest.mark.parametrize("name", [request.name for request in REQUESTS])
def test_a_request_executes_few_files(hops: dict[str, list[str]], name: str) -> None:
    assert len(hops[name]) <= LIMITS[name], hops[name]


def test_engine_and_model_count_as_one_file_each(hops: dict[str, list[str]]) -> None:
    for files in hops.values():
        assert [file for file in files if file.startswith(("service/engine", "service/model"))] == [
            "service/engine",
            "service/model",
        ]
