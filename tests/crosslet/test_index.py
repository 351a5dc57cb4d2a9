"""Documents in a folder, without HTTP; the service serves the same folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crosslet import CrossletError, Encoder, Index
from tests.artifacts import TEXTS
from tests.service.conftest import Serve


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return Encoder(tiny_model, threads=2)


@pytest.fixture
def index(encoder: Encoder, tmp_path: Path) -> Iterator[Index]:
    with Index(tmp_path / "data", encoder) as index:
        yield index


def documents() -> list[dict[str, object]]:
    return [{"id": f"d{n}", "text": text, "metadata": {"n": n}} for n, text in enumerate(TEXTS)]


def test_a_search_finds_what_was_put(index: Index) -> None:
    report = index.put(documents())
    assert (report.new, report.unchanged, len(index)) == (len(TEXTS), 0, len(TEXTS))
    (best, *_) = index.search(TEXTS[1], top_k=3)
    assert (best.id, best.text, best.metadata, best.passage) == ("d1", TEXTS[1], {"n": 1}, TEXTS[1])
    (exact,) = index.search(TEXTS[1], top_k=1, mode="dense")
    assert exact.score == pytest.approx(1, abs=1e-6)
    assert [hit.id for hit in index.search("guitarra", mode="keywords")] == ["d2"]
    assert {hit.id for hit in index.search("guitar", filter={"n": {"lt": 2}})} == {"d0", "d1"}
    assert index.search(TEXTS[1], mode="dense", min_score=0.9999)[0].id == "d1"


def test_what_is_the_same_is_not_put_again(index: Index) -> None:
    index.put(documents())
    changed = documents()
    changed[0] = {**changed[0], "text": "another"}
    report = index.put(iter(changed))
    assert (report.new, report.replaced, report.unchanged) == (0, 1, len(TEXTS) - 1)
    assert str(report) == f"{len(TEXTS)} documents read: 0 new, 1 replaced, {len(TEXTS) - 1} unchanged"
    assert index.get("d0") == {"id": "d0", "text": "another", "metadata": {"n": 0}}
    assert index.get("nothing") is None
    assert (index.delete(["d0", "nothing"]), index.delete("d1"), len(index)) == (1, 1, len(TEXTS) - 2)


def test_a_malformed_document_is_named_by_its_place(index: Index) -> None:
    for bad, words in [
        ({"id": "x"}, r"documents\[1\]: text: Field required"),
        ({"id": "x", "text": "a", "metadata": 3}, r"documents\[1\]: metadata"),
        ("text", r"documents\[1\] is of type str"),
    ]:
        with pytest.raises(CrossletError, match=words):
            index.put([{"id": "a", "text": "b"}, bad])  # type: ignore[list-item]


def test_text_files_become_documents_by_their_paths(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    for name, text in {
        **{"a.md": TEXTS[0], "below/b.txt": TEXTS[1], "c.py": "code", "blank.txt": " \n"},
        **{".git/x.txt": "hidden", "below/.y.md": "hidden"},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert index.put_files(folder).new == 2
    assert index.put_files(str(folder), patterns=["*.py", "*.md"]).new == 1
    assert [index.get(id_) is not None for id_ in ("a.md", "below/b.txt", "c.py")] == [True] * 3
    (folder / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(CrossletError, match=r"bad\.txt cannot be read \(it is not UTF-8\)"):
        index.put_files(folder)
    with pytest.raises(CrossletError, match="is not a folder"):
        index.put_files(folder / "a.md")
    assert index.put_files(folder, patterns="*.md").unchanged == 1
    for pattern in ("/x", "**x"):
        with pytest.raises(CrossletError, match=r"^patterns: .*; write them like \*\.txt"):
            index.put_files(folder, patterns=[pattern])


def test_long_documents_are_found_by_their_passages(index: Index, encoder: Encoder) -> None:
    long = ". ".join([TEXTS[7]] * 40 + ["Ein Mann spielt Gitarre"] + [TEXTS[7]] * 40) + "."
    index.put([{"id": "long", "text": long}])
    (hit,) = index.search("Ein Mann spielt Gitarre")
    assert hit.text == long
    assert "Gitarre" in hit.passage
    assert len(hit.passage) < len(long)


def test_the_service_serves_the_same_folder(encoder: Encoder, tmp_path: Path, serve: Serve) -> None:
    with Index(tmp_path / "data", encoder) as index:
        index.put(documents())
        with pytest.raises(CrossletError, match="is in use"):
            Index(tmp_path / "data", encoder)
        reader = Index(tmp_path / "data", encoder, read_only=True)
        mine = [(hit.id, hit.score) for hit in reader.search(TEXTS[4], top_k=5)]
        with pytest.raises(CrossletError, match="open for reading"):
            reader.put(documents())
        with pytest.raises(CrossletError, match="open for reading"):
            reader.delete(["d0"])
        reader.close()
    client = serve(data=tmp_path / "data")
    results = client.post("/search", json={"query": TEXTS[4], "top_k": 5}).json()["results"]
    assert [(one["id"], one["score"]) for one in results] == [(id_, pytest.approx(score)) for id_, score in mine]


def test_collections_are_apart(encoder: Encoder, tmp_path: Path) -> None:
    with Index(tmp_path, encoder, collection="shop") as shop:
        shop.put(documents()[:2])
    with Index(tmp_path, encoder) as default:
        assert len(default) == 0
    with Index(tmp_path, encoder, collection="shop", read_only=True) as shop:
        assert len(shop) == 2
    with pytest.raises(CrossletError, match="other"):
        Index(tmp_path, encoder, collection="other", read_only=True)


def test_settings_of_the_service_have_no_effect(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "service"))
    monkeypatch.setenv("CROSSLET_INDEX", "milvus://nowhere:1")
    monkeypatch.setenv("CROSSLET_MAX_TEXT_CHARS", "1")
    with Index(tmp_path / "mine", encoder) as index:
        index.put(documents())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_bad_searches_are_refused(index: Index) -> None:
    for asked, words in [
        ({"query": " "}, "nothing but white space"),
        ({"query": ""}, "the query is empty"),
        ({"query": "\ud800"}, "not valid UTF-8"),
        ({"query": "a", "top_k": 0}, "top_k is 0"),
        ({"query": "a", "mode": "fuzzy"}, "mode is fuzzy"),
        ({"query": "a", "filter": {"n": {"near": 1}}}, "operators"),
    ]:
        with pytest.raises(CrossletError, match=words):
            index.search(**asked)  # type: ignore[arg-type]
    assert index.search("a") == []


def test_ids_that_are_no_text_and_a_closed_index_are_refused(index: Index) -> None:
    index.put(documents())
    for call in (
        lambda id_: index.get(id_),
        lambda id_: index.delete([id_]),
        lambda id_: index.search("a", filter={"a": id_}),
        lambda id_: index.search("a", filter={id_: "a"}),
    ):
        with pytest.raises(CrossletError, match="half a surrogate pair"):
            call("\ud800")
    index.close()
    for call in (index.get, index.delete, index.search, lambda id_: index.put([{"id": id_, "text": "b"}])):
        with pytest.raises(CrossletError, match="is closed; open it again"):
            call("a")


def test_documents_that_the_model_fails_on_are_told(failing_model: Path, tmp_path: Path) -> None:
    with Index(tmp_path, Encoder(failing_model)) as index:
        with pytest.raises(CrossletError, match=r"1 documents were not stored, the others are: document \"b\""):
            index.put([{"id": id_, "text": text} for id_, text in {"a": "x", "b": "kaputt", "c": "y"}.items()])
        assert [index.get(id_) is not None for id_ in "abc"] == [True, False, True]
