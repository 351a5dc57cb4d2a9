"""PUT /collections/{name}, and documents with their own fields over HTTP."""

import threading
from pathlib import Path

import orjson
import pytest
from fastapi.testclient import TestClient

from tests.service.api.answers import assert_refused
from tests.service.conftest import Serve, bearer

SHOP = "/collections/shop"
KETTLE = {"id": "1", "title": "Kettle", "description": "boils water", "price": 19.9, "tags": ["red", "steel"]}
TEMPLATE = {"text": "{title}. {description}"}
LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture(params=["embedded", "milvus-lite"])
def client(request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> TestClient:
    """A service with either engine."""
    if request.param == "embedded":
        return serve()
    return serve(index=f"milvus+lite://{tmp_path}/documents.db", index_timeout_s=100)


def configure(client: TestClient, settings: dict[str, object] = TEMPLATE, path: str = SHOP) -> dict[str, object]:
    answer = client.put(path, json=settings)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def put(client: TestClient, *documents: dict[str, object]) -> dict[str, object]:
    answer = client.put(f"{SHOP}/documents", json={"documents": documents})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_collection_shows_its_settings(client: TestClient) -> None:
    made = configure(client, TEMPLATE | {"fields": ["price"]})
    assert made.items() >= {"name": "shop", "documents": 0, "text": TEMPLATE["text"], "fields": ["price"]}.items()
    assert client.get(SHOP).json() == made
    default, shop = client.get("/collections").json()["collections"]
    assert (default["text"], default["fields"]) == (None, None)
    assert shop == made
    assert client.get("/info").json()["collections"] == [default, shop]


def test_documents_have_their_own_fields(client: TestClient) -> None:
    configure(client)
    assert put(client, KETTLE, {"id": 2, "title": "Lid", "metadata": {"a": 1}, "text": "own"})["upserted"] == 2
    stored = client.get(f"{SHOP}/documents/1").json()
    assert stored["text"] == "Kettle. boils water"
    assert stored["metadata"] == {name: value for name, value in KETTLE.items() if name != "id"}
    assert client.get(f"{SHOP}/documents/2").json()["metadata"] == {"title": "Lid", "metadata": {"a": 1}, "text": "own"}
    search = {"query": "boils", "mode": "keywords", "filter": {"price": {"lt": 20}}, "facets": ["tags", "title"]}
    answer = client.post(f"{SHOP}/search", json=search | {"group_by": "title", "include": ["text", "metadata"]}).json()
    (result,) = answer["results"]
    assert (result["id"], result["group"], result["metadata"]["price"]) == ("1", "Kettle", 19.9)
    assert answer["facets"]["tags"] == {"red": 1, "steel": 1}
    sorted_ = client.post(f"{SHOP}/search", json={"sort": [{"title": "desc"}]}).json()["results"]
    assert [one["id"] for one in sorted_] == ["2", "1"]
    assert client.post(f"{SHOP}/search", json={"like": "1"}).json()["results"][0]["id"] == "2"


def test_own_fields_group_and_sort(client: TestClient) -> None:
    configure(client, TEMPLATE | {"fields": ["maker.name", "price"]})
    makers = ["Ö", "水", "Ö", "水", "Ö", None]
    lines = [
        {"id": n, "title": f"Kettle {n}", "description": "boils", "price": n, "maker": {"name": maker, "vat": n}}
        for n, maker in enumerate(makers)
    ]
    put(client, *lines)
    for asked in ({"query": "kettle"}, {"query": "kettle", "mode": "keywords"}, {"filter": {}}, {"like": "5"}):
        answer = client.post(f"{SHOP}/search", json=asked | {"group_by": "maker.name", "include": []}).json()
        sizes = {one["group"]: one["group_size"] for one in answer["results"]}
        alone = {} if "like" in asked else {None: 1}
        assert sizes == {"Ö": 3, "水": 2} | alone
    by = {
        "group_by": "maker.name",
        "sort": [{"price": "desc"}],
        "filter": {"price": {"lt": 4}},
        "include": ["metadata"],
    }
    first, second = client.post(f"{SHOP}/search", json=by).json()["results"]
    assert [(one["group"], one["group_size"], one["id"]) for one in (first, second)] == [("水", 2, "3"), ("Ö", 2, "2")]
    assert first["metadata"]["maker"] == {"name": "水"}


def test_only_named_fields_and_those_of_the_text_are_kept(client: TestClient) -> None:
    configure(client, TEMPLATE | {"fields": ["price", "maker.name"]})
    put(client, KETTLE | {"secret": "s", "maker": {"name": "Ö", "vat": "1"}})
    kept = {"title": "Kettle", "description": "boils water", "price": 19.9, "maker": {"name": "Ö"}}
    assert client.get(f"{SHOP}/documents/1").json()["metadata"] == kept
    count = client.post(f"{SHOP}/documents/count", json={"filter": {"maker.name": "Ö"}}).json()
    assert count == {"count": 1}


@pytest.mark.parametrize(
    ("name", "title"), [("标题", "红色水壶"), ("العنوان", "غلاية حمراء"), ("शीर्षक", "लाल केतली"), ("ti{tle", "")]
)
def test_fields_may_be_named_in_any_script(client: TestClient, name: str, title: str) -> None:
    configure(client, {"text": f"{{{name}}}" if title else "{b}", "fields": [name]})
    put(client, {"id": "1", name: title, "b": "x"})
    stored = client.get(f"{SHOP}/documents/1").json()
    assert stored["text"] == (title or "x")
    assert client.post(f"{SHOP}/documents/count", json={"filter": {name: title}}).json() == {"count": 1}


def test_lines_have_their_own_fields(client: TestClient) -> None:
    configure(client)
    lines = [KETTLE, {"id": "2", "titel": "x", "price": 1}, {"title": "no id"}, {"id": 3, "title": "Lid"}]
    body = b"\n".join([*map(orjson.dumps, lines), b'{"id": %d, "title": "x"}' % 2**128])
    answer = client.put(f"{SHOP}/documents", content=body, headers=LINES).json()
    assert (answer["upserted"], answer["failed_lines"]) == (2, 3)
    missing = "there is no text: 'title', 'description' are missing or empty; the document has 'titel', 'price'"
    assert answer["errors"] == [
        {"line": 2, "error": f"{missing}; did you mean titel?"},
        {"line": 3, "error": "id: Field required; the document has 'title'"},
        {"line": 5, "error": "id: a whole number of more than 24 characters; send it as a string"},
    ]
    again = client.put(f"{SHOP}/documents", content=body, headers=LINES).json()
    assert (again["upserted"], again["unchanged"]) == (0, 2)
    assert client.get(f"{SHOP}/documents/3").json()["text"] == "Lid."


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"id": "2", "titel": "x"}, "documents[1]: there is no text: 'title', 'description' are missing or empty"),
        ({"title": "x"}, "documents[1]: id: Field required; the document has 'title'"),
        ({"id": True, "title": "x"}, "documents[1]: id: Input should be a valid string"),
        ({"id": 1.5, "title": "x"}, "documents[1]: id: Input should be a valid string"),
        ({"id": "a/../b", "title": "x"}, "documents[1]: id: a part between slashes"),
        ({"id": 10**24 - 1, "title": "x"}, ""),
        ({"id": 2**128, "title": "x"}, "documents[1]: id: a whole number of more than 24 characters; send it as a"),
        ({"id": -(10**23), "title": "x"}, "documents[1]: id: a whole number of more than 24 characters"),
        ({"id": "2", "title": "x", "n": 2**70}, "documents[1]: metadata: a whole number is beyond 64 bits"),
        ({"id": "2", "title": {"de": "x"}}, "the text uses 'title', which is an object here; it may use 'title.de'"),
        ({"id": "1", "title": "x"}, "documents[1].id repeats documents[0].id"),
        ("no object", "documents[1]: not a JSON object"),
    ],
)
def test_documents_are_refused_by_name(client: TestClient, document: object, message: str) -> None:
    configure(client)
    answer = client.put(f"{SHOP}/documents", json={"documents": [KETTLE, document]})
    if not message:
        assert answer.status_code == 200
        return
    assert_refused(answer, 422, "Validation", message)
    assert client.get(SHOP).json()["documents"] == 0


def test_texts_of_a_request_have_a_limit(serve: Serve) -> None:
    client = serve(max_body_bytes=20_000, max_text_chars=20_000)
    configure(client, {"text": "{a}" * 30})
    answer = client.put(f"{SHOP}/documents", json={"documents": [{"id": str(n), "a": "x" * 400} for n in range(2)]})
    assert_refused(answer, 422, "Validation", "have more than 20000 characters up to position 1")
    line = orjson.dumps({"id": "1", "a": "x" * 1000})
    answer = client.put(f"{SHOP}/documents", content=line, headers=LINES)
    assert_refused(answer, 422, "Validation", "the text would have 30000 characters; the limit is 20000")


def test_settings_change_while_a_collection_is_empty(client: TestClient) -> None:
    configure(client)
    other = {"text": "{title}", "fields": []}
    assert configure(client, other).items() >= other.items()
    assert configure(client, {}).items() >= {"text": None, "fields": None}.items()
    configure(client, other)
    put(client, KETTLE)
    assert configure(client, other)["documents"] == 1
    for settings in (TEMPLATE, {"text": "{title}"}, {}):
        message = "text and fields are set while a collection is empty; it has 1 documents"
        assert_refused(client.put(SHOP, json=settings), 409, "Validation", message)
    assert client.delete(f"{SHOP}/documents/1").status_code == 200
    configure(client, TEMPLATE)
    put(client, KETTLE)
    assert client.get(f"{SHOP}/documents/1").json()["text"] == "Kettle. boils water"


def test_the_default_collection_may_have_settings(client: TestClient) -> None:
    configure(client, path="/collections/default")
    assert client.put("/documents", json={"documents": [KETTLE]}).status_code == 200
    assert client.get("/documents/1").json()["text"] == "Kettle. boils water"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fields": ["a"]}, "fields needs text beside it"),
        ({"text": "none"}, "text names no field"),
        ({"text": 1}, "text: Input should be a valid string"),
        ({"text": "{a}", "fields": "a"}, "fields: Input should be a valid list"),
        (
            {"text": "{a}", "field": ["a"]},
            "the field 'field' is unknown; known are text, fields, confidence; did you mean fields?",
        ),
        ({"text": "{a}" * 2000}, "text has 6000 characters"),
    ],
)
def test_malformed_settings_make_no_collection(client: TestClient, settings: dict[str, object], message: str) -> None:
    assert_refused(client.put(SHOP, json=settings), 422, "Validation", message)
    assert client.get(SHOP).status_code == 404


def test_settings_need_a_name_a_place_and_a_full_key(serve: Serve) -> None:
    client = serve(api_keys="full", read_api_keys="reader", max_collections=2)
    assert client.put(SHOP, json=TEMPLATE).status_code == 401
    assert_refused(client.put(SHOP, json=TEMPLATE, headers=bearer("reader")), 403, "Unauthorized")
    key = bearer("full")
    assert_refused(client.put("/collections/-a", json=TEMPLATE, headers=key), 422, "Validation", "a collection's name")
    assert client.put(SHOP, json=TEMPLATE, headers=key).status_code == 200
    assert_refused(client.put("/collections/b", json={}, headers=key), 507, "Backend", "(CROSSLET_MAX_COLLECTIONS)")


def test_a_patch_renders_the_text_again(client: TestClient) -> None:
    configure(client, TEMPLATE | {"fields": ["price"]})
    put(client, KETTLE, {"id": "2", "title": "Pan"})
    first = client.get(f"{SHOP}/documents/1").json()
    same = client.patch(f"{SHOP}/documents/1", json={"metadata": {"price": 5, "stray": 1}})
    assert "x-tokens" not in same.headers
    before = client.post(f"{SHOP}/search", json={"query": "Pan", "include": ["vector"]}).json()["results"]
    changed = client.patch(f"{SHOP}/documents/1", json={"metadata": {"title": "Pan", "description": None}})
    assert changed.json()["revision"] > same.json()["revision"] > first["revision"]
    assert int(changed.headers["x-tokens"]) > 0
    stored = client.get(f"{SHOP}/documents/1").json()
    assert (stored["text"], stored["metadata"]) == ("Pan.", {"title": "Pan", "price": 5})
    assert client.post(f"{SHOP}/search", json={"query": "boils", "mode": "keywords"}).json()["results"] == []
    after = client.post(f"{SHOP}/search", json={"query": "Pan", "include": ["vector"]}).json()["results"]
    vectors = {one["id"]: one["vector"] for one in after}
    assert vectors["1"] == vectors["2"] == {one["id"]: one["vector"] for one in before}["2"]


@pytest.mark.parametrize(
    ("patch", "status", "message"),
    [
        ({"title": None, "description": ""}, 422, "there is no text: 'title', 'description' are missing or empty"),
        ({"id": "2"}, 422, "metadata.id: an id stays"),
        ({"title": {"de": "x"}}, 422, "which is an object here"),
    ],
)
def test_a_refused_patch_changes_nothing(
    client: TestClient, patch: dict[str, object], status: int, message: str
) -> None:
    configure(client)
    put(client, KETTLE)
    before = client.get(f"{SHOP}/documents/1").json()
    assert_refused(client.patch(f"{SHOP}/documents/1", json={"metadata": patch}), status, "Validation", message)
    assert client.get(f"{SHOP}/documents/1").json() == before
    assert client.patch(f"{SHOP}/documents/none", json={"metadata": {"title": "x"}}).status_code == 404


def test_concurrent_patches_lose_no_field(client: TestClient) -> None:
    configure(client, {"text": "{title} {a0} {a1} {a2} {a3}"})
    put(client, KETTLE)
    statuses: list[int] = []

    def patch(field: str) -> None:
        for number in range(5):
            answer = client.patch(f"{SHOP}/documents/1", json={"metadata": {field: f"{field}x{number}"}})
            while answer.status_code == 409:
                answer = client.patch(f"{SHOP}/documents/1", json={"metadata": {field: f"{field}x{number}"}})
            statuses.append(answer.status_code)

    threads = [threading.Thread(target=patch, args=(f"a{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 20
    stored = client.get(f"{SHOP}/documents/1").json()
    assert stored["text"] == "Kettle a0x4 a1x4 a2x4 a3x4"
    put(client, stored["metadata"] | {"id": "2"})
    both = client.post(f"{SHOP}/search", json={"query": "Kettle", "include": ["vector"]}).json()["results"]
    assert both[0]["vector"] == both[1]["vector"]  # of the last text


def test_long_texts_of_own_fields_are_split(client: TestClient) -> None:
    configure(client, {"text": "{title}\n{body}"})
    body = " ".join(f"Ein Mann spielt Gitarre in Haus {n}." for n in range(100))
    put(client, {"id": "1", "title": "Musik", "body": body})
    result = client.post(f"{SHOP}/search", json={"query": "Gitarre in Haus 77"}).json()["results"][0]
    passage = result["passage"]
    assert result["text"][passage["start"] : passage["end"]] == passage["text"] != result["text"]


def test_settings_survive_a_restart(serve: Serve, tmp_path: Path) -> None:
    client = serve(data=tmp_path / "kept")
    configure(client, TEMPLATE | {"fields": ["price"]})
    put(client, KETTLE)
    shown = client.get("/collections").json()
    client.__exit__(None, None, None)
    again = serve(data=tmp_path / "kept")
    assert again.get("/collections").json() == shown
    assert put(again, KETTLE | {"id": "2"})["upserted"] == 1


def test_collections_without_settings_refuse_as_before(client: TestClient) -> None:
    for documents, message in (
        ([{"id": "1", "text": "x"}, {"id": "2", "title": "x"}], "documents[1]: the field 'title' is unknown"),
        ([{"id": 1, "text": "x"}], "documents[0].id: Input should be a valid string"),
        ([{"id": "1"}], "documents[0].text: Field required"),
    ):
        assert_refused(client.put("/documents", json={"documents": documents}), 422, "Validation", message)
    both = {"documents": [{"id": "1"}], "chunk": "yes"}
    assert_refused(client.put("/documents", json=both), 422, "Validation", "documents[0].text: Field required")
    long = {"documents": [{"id": "1", "text": "x" * 70_000, "title": 1}]}
    assert_refused(client.put("/documents", json=long), 422, "Validation", "the field 'title' is unknown")
