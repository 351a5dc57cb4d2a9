import functools
import itertools
import signal
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest

from service.documents.document import Document, StoredDocument, Vectors
from service.documents.ingest import Report
from service.documents.readers.records import Record
from service.errors import InferenceFailed, InvalidInput, StorageFull
from service.model.encoder import Encoded
from service.offline import loading
from service.offline.embedding import Embedded, Engine, threads_engine
from service.offline.loading import Load, to_document
from tests.artifacts import DIM


class Shelf:
    """Documents in memory, with every batch that was put."""

    def __init__(self) -> None:
        self.documents: dict[str, StoredDocument] = {}
        self.vectors: dict[str, np.ndarray] = {}
        self.batches: list[list[str]] = []
        self.asked: list[int] = []  # ids a call: each is a round trip to a database

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        self.asked += [len(ids)] if ids else []
        return {id_: self.documents[id_] for id_ in ids if id_ in self.documents}

    def put(self, documents: Sequence[Document], vectors_ND: np.ndarray) -> int:
        ids = [document.id for document in documents]
        assert len(set(ids)) == len(ids) > 0
        self.batches.append(ids)
        for document, vector_D in zip(documents, vectors_ND, strict=True):
            self.vectors[document.id] = vector_D
            self.documents[document.id] = StoredDocument(
                document.id, document.text, document.metadata, row=0, revision=len(self.batches)
            )
        return len(self.batches)


def records(*documents: tuple[str, str]) -> list[Record]:
    return [Record(line, line, {"id": id_, "text": text}) for line, (id_, text) in enumerate(documents, start=1)]


def up_to(chars: int) -> Callable[[Record], Document]:
    return functools.partial(to_document, max_text_chars=chars)


def stop(sentence: str) -> None:
    raise InvalidInput(sentence)


def length_engine(batches: Iterable[Sequence[str]], *, ahead: int = 3) -> Vectors:
    """A text's vector is its length; some batches are read before the first is given, as every engine may do."""
    batches = iter(batches)
    waiting = list(itertools.islice(batches, ahead))
    while waiting:
        texts = waiting.pop(0)
        yield Embedded(np.array([[len(text)] for text in texts], np.float32).reshape(-1, 1), ())
        waiting += itertools.islice(batches, 1)


def load(shelf: Shelf, given: Iterable[Record], engine: Engine = length_engine) -> Report:
    return Load(up_to(1000), stop, stop).run(given, shelf, engine)


def test_new_replaced_and_unchanged_documents_are_told_apart() -> None:
    shelf, seen = Shelf(), []

    def engine(batches: Iterable[Sequence[str]]) -> Vectors:
        yield from length_engine(seen.append(texts) or texts for texts in batches)  # type: ignore[func-returns-value]

    assert load(shelf, records(("1", "a"), ("2", "bb"))) == Report(new=2)
    report = load(shelf, records(("1", "a"), ("2", "ccc"), ("3", "d")), engine)
    assert report == Report(new=1, replaced=1, unchanged=1)
    assert [text for texts in seen for text in texts] == ["ccc", "d"]
    assert shelf.batches == [["1", "2"], ["2", "3"]]
    assert {id_: vector[0] for id_, vector in shelf.vectors.items()} == {"1": 1, "2": 3, "3": 1}


@pytest.mark.parametrize("size", [1, 2, 256])
def test_of_an_id_that_comes_again_the_last_one_stays(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BATCH_DOCUMENTS", size)
    shelf = Shelf()
    load(shelf, records(("1", "old")))
    # the last one is what the store had: it must not pass for unchanged while another is on its way
    report = load(shelf, records(("1", "newer"), ("2", "x"), ("2", "yy"), ("1", "old"), ("2", "yy")))
    assert {id_: document.text for id_, document in shelf.documents.items()} == {"1": "old", "2": "yy"}
    assert report == Report(new=1, replaced=3, unchanged=1)


def test_a_batch_is_bounded_in_documents_and_in_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BATCH_DOCUMENTS", 3)
    monkeypatch.setattr(loading, "BATCH_CHARS", 10)
    shelf = Shelf()
    load(shelf, records(*((str(n), "x") for n in range(7)), ("a", "y" * 12), ("b", "z")))
    assert shelf.batches == [["0", "1", "2"], ["3", "4", "5"], ["6"], ["a"], ["b"]]


def test_a_batch_is_compared_at_once() -> None:
    shelf = Shelf()
    given = records(*((str(n), "x") for n in range(600)))
    assert (load(shelf, given).new, sum(shelf.asked), len(shelf.asked)) == (600, 1200, 6)
    shelf.asked.clear()
    assert (load(shelf, given).unchanged, shelf.asked) == (600, [256, 256, 88])


def test_a_bad_line_stops_with_its_number_or_is_counted() -> None:
    shelf = Shelf()
    given = [*records(("1", "a")), Record(2, 2, {}, "is not valid JSON"), Record(3, 3, {"id": "3", "text": "b"})]
    with pytest.raises(InvalidInput, match=r"^line 2: is not valid JSON$"):
        load(shelf, given)
    said: list[str] = []
    report = Load(up_to(9), said.append, stop).run(given, shelf, length_engine)
    assert report.skipped == 1
    assert said == ["line 2: is not valid JSON"]
    assert set(shelf.documents) == {"1", "3"}


def test_what_was_committed_stays_when_the_store_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BATCH_DOCUMENTS", 2)

    class Full(Shelf):
        def put(self, documents: Sequence[Document], vectors_ND: np.ndarray) -> int:
            if len(self.batches) == 2:
                raise StorageFull("full")
            return super().put(documents, vectors_ND)

    shelf = Full()
    work = Load(up_to(9), stop, stop)
    with pytest.raises(StorageFull):
        work.run(records(*((str(n), "x") for n in range(10))), shelf, length_engine)
    assert work.report.new == len(shelf.documents) == 4


def test_ctrl_c_waits_until_a_batch_is_put_and_counted() -> None:
    class Interrupted(Shelf):
        def put(self, documents: Sequence[Document], vectors_ND: np.ndarray) -> int:
            signal.raise_signal(signal.SIGINT)
            return super().put(documents, vectors_ND)

    shelf, report = Interrupted(), Report()
    with pytest.raises(KeyboardInterrupt):
        Load(up_to(100), stop, stop, report=report).run(records(("a", "x"), ("b", "y")), shelf, length_engine)
    assert (report.new, sorted(shelf.documents)) == (2, ["a", "b"])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_reaches_the_end_even_without_changes() -> None:
    shelf, reached = Shelf(), []
    given = records(*((str(n), "x") for n in range(1000)))
    for _ in range(2):
        Load(up_to(9), stop, stop, lambda read, _: reached.append(read)).run(given, shelf, length_engine)
        assert reached[-1] == 1000
        assert reached == sorted(reached)
        assert len(reached) > 2
        reached.clear()


def encode_good(texts: Sequence[str]) -> list[Encoded]:
    """A text's vector is its length; those with a "bad" fail, and all that come with them."""
    if any("bad" in text for text in texts):
        raise InferenceFailed("the model failed on a text of 3 tokens")
    return [Encoded(np.full(DIM, len(text), np.float32), 1, 1) for text in texts]


def test_failing_document_is_named_and_the_others_are_loaded() -> None:
    shelf, said = Shelf(), list[str]()
    load(shelf, records(("7", "older")))
    work = Load(up_to(9), stop, said.append)
    texts = {str(n): "x" * (1 + n % 5) for n in range(600)} | {"7": "bad", "300": "worse bad"[:9], 'a"b': "bad"}
    given = records(*texts.items())
    report = work.run(given, shelf, threads_engine(encode_good, workers=2, dim=DIM))
    assert report == Report(new=598, failed=3)
    assert str(report) == "598 documents read: 598 new, 0 replaced, 0 unchanged, 3 could not be embedded"
    failure = "the model failed on a text of 3 tokens"
    assert said == [f'document "7": {failure}', f'document "300": {failure}', f'document "a\\"b": {failure}']
    assert shelf.documents["7"].text == "older"
    assert {id_ for id_ in texts if id_ not in shelf.documents} == {"300", 'a"b'}
    assert all(shelf.vectors[id_][0] == len(text) for id_, text in texts.items() if "bad" not in text)


def test_memory_that_runs_out_is_no_texts_fault() -> None:
    def encode_all(texts: Sequence[str]) -> list[Encoded]:
        raise MemoryError

    with pytest.raises(MemoryError):
        load(Shelf(), records(("1", "x")), threads_engine(encode_all, workers=1, dim=DIM))


def test_an_engine_that_does_not_go_on_is_named_with_its_lines() -> None:
    def breaking(batches: Iterable[Sequence[str]]) -> Vectors:
        vectors = length_engine(batches)
        yield next(vectors)
        raise InferenceFailed("an actor failed")

    shelf = Shelf()
    with pytest.raises(InferenceFailed, match=r"^lines 257 to 258: an actor failed$"):
        load(shelf, records(*((str(n), "x") for n in range(258))), breaking)
    assert len(shelf.documents) == 256
    with pytest.raises(InferenceFailed, match=r"^an actor failed$"):  # what is unchanged has no lines to name
        load(shelf, records(*((str(n), "x") for n in range(256))), breaking)


def test_the_report_says_what_happened() -> None:
    report = Report(new=3, replaced=2, unchanged=1)
    assert str(report) == "6 documents read: 3 new, 2 replaced, 1 unchanged"
    report.skipped, report.truncated = 4, 5
    assert str(report).endswith("1 unchanged, 4 bad lines skipped; of 5 the model read only the beginning")
