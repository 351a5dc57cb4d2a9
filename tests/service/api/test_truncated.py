"""GET /documents?truncated=true: the documents of which the model read only the beginning."""

from fastapi.testclient import TestClient

from tests.artifacts import TEXTS
from tests.service.api.answers import pages
from tests.service.api.test_uploads import HEADERS, body_of
from tests.service.conftest import Serve

LONG = " ".join(TEXTS * 6)


def put(client: TestClient, path: str = "/documents", *, chunk: bool = False, **texts: str) -> list[str]:
    """The ids of the answer's `truncated`."""
    documents = [{"id": id_, "text": text, "metadata": {"of": id_[0]}} for id_, text in texts.items()]
    answer = client.put(path, json={"documents": documents, "chunk": chunk})
    assert answer.status_code == 200, answer.text
    return list(answer.json().get("truncated", []))


def truncated(client: TestClient, path: str = "/documents", **parameters: str) -> list[str]:
    """All ids that are listed, two a page."""
    listed = list(pages(client, path, truncated="true", limit=2, **parameters))
    ids = [one["id"] for page in listed for one in page["documents"]]
    assert {page["total"] for page in listed} == {len(ids)}
    return ids


def test_cut_documents_are_listed_until_put_whole(client: TestClient) -> None:
    assert truncated(client) == []
    cut = put(client, a1=LONG, a2="kurz", b1=LONG, b2=LONG, b3="kurz", a3=LONG)
    assert cut == ["a1", "b1", "b2", "a3"]
    assert truncated(client) == cut
    assert truncated(client, filter='{"of": "a"}') == ["a1", "a3"]
    assert truncated(client, filter='{"of": "x"}') == []
    assert client.get("/documents").json()["total"] == 6
    assert client.patch("/documents/a1", json={"metadata": {"n": 1}}).status_code == 200
    assert truncated(client) == cut
    assert put(client, chunk=True, a1=LONG) == []
    assert put(client, b1="kurz") == []
    assert put(client, b3=LONG) == ["b3"]
    assert truncated(client) == ["b2", "b3", "a3"]
    assert client.delete("/documents/b2").status_code == 200
    assert truncated(client) == ["b3", "a3"]


def test_cut_lines_are_listed_by_collection(serve: Serve) -> None:
    client = serve(chunk=False)
    assert put(client, a=LONG) == ["a"]
    lines = body_of({"id": "b", "text": "kurz"}, {"id": "c", "text": LONG})
    answer = client.put("/collections/shop/documents", content=lines, headers=HEADERS)
    assert answer.json()["truncated"] == ["c"]
    assert truncated(client) == ["a"]
    assert truncated(client, "/collections/shop/documents") == ["c"]
    assert client.get("/documents", params={"truncated": "perhaps"}).status_code == 422
