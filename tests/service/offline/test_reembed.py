from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from service.document_index import NEXT
from service.documents.collections import Collection, EmbeddedCollections, IndexOptions
from service.documents.document import Document
from service.documents.interface import Query
from service.errors import StoreError, StoreInUse
from service.offline.embedding import Embedded, EmbeddedStream, Engine
from service.offline.reembed import Reembedding
from service.offline.store_file import open_store_file
from tests.service.documents import stores
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import STORE, open_store, read_page

OLD_DIM, NEW_DIM = 4, 6


def vector_of(text: str, dim: int) -> np.ndarray:
    """What the model of so many dims makes of a text."""
    vector = np.random.default_rng([dim, *text.encode()]).standard_normal(dim).astype(np.float32)
    unit: np.ndarray = vector / np.linalg.norm(vector)
    return unit


def engine(seen: list[str]) -> Engine:
    """The new model; notes what it is given."""

    def run(batches: Iterable[Sequence[str]]) -> EmbeddedStream:
        for texts in batches:
            seen.extend(texts)
            rows = [vector_of(text, NEW_DIM) for text in texts]
            yield Embedded(np.stack(rows) if rows else np.empty((0, NEW_DIM), np.float32), ())

    return run


def open_collection(folder: Path, fingerprint: str, dim: int) -> Collection:
    return stores.open_collection(folder, fingerprint=fingerprint, dim=dim)


def put(collection: Collection, **texts: str) -> int:
    documents = [Document(id_, text, {"of": id_}) for id_, text in texts.items()]
    return collection.put(documents, np.stack([vector_of(text, OLD_DIM) for text in texts.values()]))


def stored(folder: Path, **texts: str) -> None:
    """Make a store of the old model with these documents."""
    collection = open_collection(folder, "old", OLD_DIM)
    put(collection, **texts)
    collection.close()


def texts_in(folder: Path, fingerprint: str = "new", dim: int = NEW_DIM) -> dict[str, str]:
    """Id -> text, as a service of a model reads them."""
    collection = open_collection(folder, fingerprint, dim)
    hits = search_one(collection, vector_of("x", dim), top_k=9)
    assert len(hits) == len(collection)
    collection.close()
    return {hit.document.id: hit.document.text for hit in hits}


def conversion(folder: Path, fingerprint: str = "new") -> Reembedding:
    return Reembedding(folder / STORE, fingerprint=fingerprint, dim=NEW_DIM)


def reembed(folder: Path) -> list[str]:
    """Make the store over. Return the texts that the new model was given."""
    seen: list[str] = []
    conversion(folder).copy(engine(seen))
    conversion(folder).take_over(engine(seen))
    return seen


def test_a_store_is_made_over_for_another_model(tmp_path: Path) -> None:
    collection = open_collection(tmp_path, "old", OLD_DIM)
    put(collection, a="Hund", b="chat", c="köpek")
    revision = put(collection, b="gato")
    collection.close()
    assert reembed(tmp_path) == ["Hund", "gato", "köpek"]  # each once
    with pytest.raises(StoreError, match="vectors of model new"):
        open_collection(tmp_path, "old", OLD_DIM)
    made = open_collection(tmp_path, "new", NEW_DIM)
    assert [one.document.id for one in search_one(made, vector_of("gato", NEW_DIM), top_k=1)] == ["b"]
    assert [document.id for document in read_page(made).documents] == ["a", "b", "c"]
    assert search_one(made, vector_of("Hund", NEW_DIM), top_k=3, filter_={"of": "c"})[0].document.text == "köpek"
    assert [one.document.id for one in made.search_all([Query(words="GATO")], top_k=9)[0]] == ["b"]
    assert made.put([Document("d", "x", {})], vector_of("x", NEW_DIM)[None]) > revision
    made.close()
    assert {path.name for path in tmp_path.iterdir()} == {"documents.lock", "documents.revision", STORE}


def test_the_service_goes_on_with_the_old_store_until_the_end(tmp_path: Path) -> None:
    collection = open_collection(tmp_path, "old", OLD_DIM)
    put(collection, a="Hund", b="chat", c="köpek")
    seen: list[str] = []
    work = conversion(tmp_path)
    work.copy(engine(seen))
    put(collection, b="gato", d="pes")
    collection.delete(["c"])
    with pytest.raises(StoreInUse, match=r"is in use by another process"):
        work.take_over(engine(seen))
    assert work.is_ready
    assert (tmp_path / NEXT).exists()
    assert [one.document.id for one in search_one(collection, vector_of("gato", OLD_DIM), top_k=1)] == ["b"]
    collection.close()
    work.take_over(engine(seen))
    assert seen == ["Hund", "chat", "köpek", "gato", "pes"]  # only what changed, again
    assert texts_in(tmp_path) == {"a": "Hund", "b": "gato", "d": "pes"}


def test_a_run_that_was_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    stored(tmp_path, **{f"d{number}": f"text {number}" for number in range(600)})

    def broken(batches: Iterable[Sequence[str]]) -> EmbeddedStream:
        for number, embedded in enumerate(engine([])(batches)):
            if number == 1:
                raise KeyboardInterrupt
            yield embedded

    with pytest.raises(KeyboardInterrupt):
        conversion(tmp_path).copy(broken)
    seen: list[str] = []
    outcome = conversion(tmp_path).copy(engine(seen))
    assert 0 < outcome.unchanged < 600
    assert len(seen) == 600 - outcome.unchanged


@pytest.mark.parametrize(
    ("again", "order"),
    [("ae", "bcdae"), ("ed", "abced"), ("bd", "acbd"), ("db", "acdb"), ("", "abcd"), ("dcba", "dcba")],
)
def test_documents_put_again_between_runs_come_last(tmp_path: Path, again: str, order: str) -> None:
    collection = open_collection(tmp_path, "old", OLD_DIM)
    put(collection, a="Hund", b="chat", c="gato", d="pes")
    conversion(tmp_path).copy(engine([]))
    collection.delete(list(again))
    for id_ in again:
        put(collection, **{id_: f"text of {id_}"})
    collection.close()
    reembed(tmp_path)
    with open_store_file(tmp_path / STORE) as file:
        assert "".join(document.id for document in file.documents(with_vectors=False)) == order


def test_a_next_store_of_a_third_model_is_thrown_away(tmp_path: Path) -> None:
    stored(tmp_path, a="Hund", b="chat")
    conversion(tmp_path, "third").copy(engine([]))
    assert reembed(tmp_path) == ["Hund", "chat"]
    assert texts_in(tmp_path) == {"a": "Hund", "b": "chat"}


def test_what_a_next_store_has_left_does_not_stand_in_the_way(tmp_path: Path) -> None:
    stored(tmp_path, a="Hund")
    conversion(tmp_path).copy(engine([]))
    (tmp_path / NEXT).unlink()  # its revision file stays, and records an acknowledged revision
    reembed(tmp_path)
    assert texts_in(tmp_path) == {"a": "Hund"}


def test_the_old_store_stays_while_another_process_reads_it(tmp_path: Path) -> None:
    collection = open_collection(tmp_path, "old", OLD_DIM)
    put(collection, a="Hund", b="chat")
    work = conversion(tmp_path)
    with open_store_file(tmp_path / STORE) as reader:
        put(collection, c="köpek")
        collection.close()  # the log stays: the reader is at its moment
        work.copy(engine([]))
        with pytest.raises(StoreError, match=r"another process reads .* is ready: stop that process and run the same"):
            work.take_over(engine([]))
        assert [row.id for row in reader.rows()] == ["a", "b"]
    documents = {"a": "Hund", "b": "chat", "c": "köpek"}
    assert texts_in(tmp_path, "old", OLD_DIM) == documents
    work.take_over(engine([]))
    assert texts_in(tmp_path) == documents


def test_a_next_store_that_is_not_whole_does_not_take_over(tmp_path: Path) -> None:
    """Its last changes are in its log as long as somebody reads it."""
    collection = open_collection(tmp_path, "old", OLD_DIM)
    put(collection, a="Hund")
    work = conversion(tmp_path)
    work.copy(engine([]))
    put(collection, b="chat", c="gato")
    collection.close()
    documents = {"a": "Hund", "b": "chat", "c": "gato"}
    with open_store_file(tmp_path / NEXT):
        with pytest.raises(
            StoreError, match=r"could not be merged into it: .* is unchanged: run the same command again"
        ):
            work.take_over(engine([]))
        assert texts_in(tmp_path, "old", OLD_DIM) == documents
    work.take_over(engine([]))
    assert texts_in(tmp_path) == documents


def test_next_store_without_tables_is_continued(tmp_path: Path) -> None:
    stored(tmp_path, a="Hund")
    (tmp_path / NEXT).touch()
    assert conversion(tmp_path).copy(engine([])).new == 1


def test_stored_documents_need_not_pass_todays_checks(tmp_path: Path) -> None:
    collection = open_collection(tmp_path, "old", OLD_DIM)
    document = Document("a\x85", "Hund", {"k" * 1000: [0] * 1000})
    collection.put([document], vector_of("Hund", OLD_DIM)[None])
    collection.close()
    conversion(tmp_path).take_over(engine([]))
    made = open_collection(tmp_path, "new", NEW_DIM)
    found = made.get(document.id)
    assert found is not None
    assert found.metadata == document.metadata
    made.close()


def test_every_collection_is_reembedded_and_dropped_ones_go(tmp_path: Path) -> None:
    store = open_store(tmp_path, fingerprint="old", dim=OLD_DIM)
    options = IndexOptions(tmp_path, "old", OLD_DIM, exact_documents=100)
    collections = EmbeddedCollections(store, options, max_collections=9)
    for name, text in (("default", "Hund"), ("gone", "chat"), ("shop", "gato")):
        collections.put(name, [Document("a", text, {})], vector_of(text, OLD_DIM)[None])
    seen: list[str] = []
    work = conversion(tmp_path)
    assert not work.is_ready
    assert work.copy(engine(seen)).new == 3
    assert work.is_ready
    collections.drop("gone")
    collections.put("shop", [Document("b", "pes", {})], vector_of("pes", OLD_DIM)[None])
    collections.close()
    work.take_over(engine(seen))
    assert not work.is_ready
    assert seen == ["Hund", "chat", "gato", "pes"]
    made = open_store(tmp_path, fingerprint="new", dim=NEW_DIM)
    assert [(one.name, one.documents) for one in made.catalog.listed()] == [("default", 1), ("shop", 2)]
    shop = made.of(made.catalog.listed()[1].number)
    with shop.snapshot() as snapshot:
        assert snapshot.with_keywords("pes").rows.tolist() == snapshot.rows_of(["b"])
    made.close()
