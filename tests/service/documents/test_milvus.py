import asyncio
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cli import main as cli
from service.document_index import load_collection, load_collections
from service.documents.collections import Versions
from service.documents.document import Document
from service.documents.interface import DocumentIndex, Query
from service.documents.milvus.address import milvus_address
from service.documents.milvus.configurations import Configurations
from service.documents.milvus.connection import LOGICAL_BITS, STALENESS_MS, Clock, MilvusConnection
from service.documents.milvus.filters import _sortable, searchable, to_expression
from service.documents.milvus.keywords import INTERVAL_S
from service.documents.milvus.rows import head_of
from service.documents.milvus.table import MilvusTable
from service.documents.own_fields import OwnFields
from service.documents.recalibration import Recalibration
from service.errors import Conflict, IndexUnavailable, InvalidInput, Overloaded, StartError, StoreError
from service.settings import Settings
from tests.ports import reserved_port
from tests.service.conftest import Serve
from tests.service.documents.milvus_server import MilvusServer, milvus_server
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import DIM, EAST, NORTH, UP, count, ids

TIMEOUT_S = 5.0  # of an index that is going to be silent
PATIENT_S = 100.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    with milvus_server(tmp_path_factory.mktemp("milvus")) as server:
        yield server


def connect(
    url: str, model: str = "a", *, dim: int = DIM, read_only: bool = False, timeout_s: float = PATIENT_S
) -> DocumentIndex:
    """Open the index of the model whose fingerprint begins with `model`."""
    manifest: Any = SimpleNamespace(fingerprint=model.ljust(64, "0"), dim=dim)
    return load_collection(Settings(index=url, index_timeout_s=timeout_s), manifest, read_only=read_only)


@pytest.fixture
def index(server: MilvusServer) -> Iterator[DocumentIndex]:
    """An empty index."""
    index = connect(server.url, secrets.token_hex(16))
    yield index
    index.close()


def lite_collections(folder: Path) -> Any:
    settings = Settings(index=f"milvus+lite://{folder}/documents.db", index_timeout_s=PATIENT_S, max_collections=3)
    return load_collections(settings, SimpleNamespace(fingerprint="5" * 64, dim=DIM))  # type: ignore[arg-type]


def document(id_: str, text: str = "text", **metadata: Any) -> Document:
    return Document(id_, text, metadata)


def test_replicas_see_each_others_changes_at_once(server: MilvusServer) -> None:
    near, far = connect(server.url), connect(server.url)
    first = near.put([document("a", lang="de")], EAST[None])
    assert far.get("a").revision == first
    second = far.put([document("a", lang="tr")], EAST[None])
    assert second > first  # though the other process has never written
    assert near.get("a").metadata == {"lang": "tr"}
    assert near.put([document("a")], EAST[None]) > second
    assert far.delete(["a"]) == 1
    assert len(near) == 0
    near.close()
    far.close()


def test_revision_grows_though_a_replicas_clock_is_behind(
    server: MilvusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, behind = connect(server.url, "cc"), connect(server.url, "cc")
    first = one.put([document("a"), document("b")], np.stack([EAST, EAST]))
    monkeypatch.setattr(time, "time_ns", lambda: 10**18)
    assert behind.put([document("b")], EAST[None]) == first + 1
    one.close()
    behind.close()


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (document("a", "ü" * 32_768), r"documents\[1\].text takes 65536 bytes; the limit is 65535 .*CROSSLET_INDEX"),
        (document("a", note="x" * 70_000), r"documents\[1\].metadata takes 70011 bytes; the limit is 65536"),
        (document("a", tags=list(range(5000))), r"documents\[1\].metadata has 5004 keys and values .* limit is 4096"),
        (document("a", **{f"{n}": n for n in range(1000)}), r"too many keys: they take \d+ bytes; the limit is 65536"),
        (document("ü" * 1025), r"documents\[1\].id takes 2050 bytes; the limit is 2048"),
    ],
)
def test_too_large_for_milvus_is_refused_before_writing(index: DocumentIndex, refused: Document, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        index.put([document("fine"), refused], np.stack([EAST, EAST]))
    assert index.get("fine") is None


def test_the_largest_text_and_id_are_kept(index: DocumentIndex) -> None:
    index.put([document("ü" * 512, "x" * 65_535)], EAST[None])
    assert index.get("ü" * 512).text == "x" * 65_535


def test_range_over_a_long_string_is_refused(index: DocumentIndex) -> None:
    with pytest.raises(InvalidInput, match="'gte' compares with a string of 128 bytes; the limit is 127"):
        search_one(index, EAST, top_k=1, filter_={"x": {"gte": "x" * 128}})
    with pytest.raises(InvalidInput, match="top_k is 16385; the limit is 16384"):
        search_one(index, EAST, top_k=16_385)


@pytest.mark.parametrize("query", [Query(EAST, "named"), Query(words="named"), Query(words="named", typing=True)])
def test_an_older_milvus_refuses_keywords(server: MilvusServer, monkeypatch: pytest.MonkeyPatch, query: Query) -> None:
    run = secrets.token_hex(16)
    monkeypatch.setattr(MilvusConnection, "version", "2.3.5")
    index = connect(server.url, run)
    index.put([document("a", "named")], EAST[None])
    assert not index.has_keywords
    assert ids(index, EAST, top_k=1) == ["a"]
    with pytest.raises(InvalidInput, match=r'need Milvus 2\.5, and this one lacks .*CROSSLET_INDEX.*send mode "dense"'):
        index.search_all([query], top_k=5)
    index.close()
    monkeypatch.setattr(MilvusConnection, "version", "2.5.1")
    index = connect(server.url, run)
    with pytest.raises(InvalidInput, match=r"need Milvus 2\.5, and it was made by an older one"):
        index.search_all([query], top_k=5)
    index.close()


def test_words_that_others_change_are_counted_within_a_second(
    server: MilvusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.documents.milvus.keywords.PATIENCE_S", PATIENT_S)
    run = secrets.token_hex(16)
    near, far = connect(server.url, run), connect(server.url, run)

    def found(words: str) -> list[str]:
        return [match.document.id for match in near.search_all([Query(words=words)], top_k=9)[0]]

    near.put([document("a", "a red kettle"), document("b", "ein roter Kessel")], np.stack([EAST, NORTH]))
    assert found("kettel") == ["a"]
    far.put([document("a", "теплый чайник"), document("c", "綠茶 WK-1702")], np.stack([EAST, UP]))
    far.delete(["b"])
    time.sleep(INTERVAL_S)
    assert [found(words) for words in ("kettle", "чайники", "绿茶", "wk1720", "kessel")] == [
        [],
        ["a"],
        ["c"],
        ["c"],
        [],
    ]
    near.put([document("c", "nothing")], UP[None])
    assert found("绿茶") == []
    assert near.search_all([Query(words="nothing")], top_k=1)[0].total == 1
    near.close()
    far.close()


def test_a_sample_of_the_newest_documents_is_counted(server: MilvusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    run = secrets.token_hex(16)
    index = connect(server.url, run)
    for number in range(6):
        index.put([document(f"{number}", f"kettle number{number}")], EAST[None])
    index.close()
    for name in ("keywords.OVERLAP_US", "keywords.HEADS_WANTED"):
        monkeypatch.setattr(f"service.documents.milvus.{name}", 1)
    for name, value in (("keywords.MAX_COUNTED", 3), ("table.WINDOW", 2)):
        monkeypatch.setattr(f"service.documents.milvus.{name}", value)
    index = connect(server.url, run)
    for words, wanted in (("number0", ["0"]), ("numbr5", ["5"]), ("kettle", ["0", "1"])):
        matches = index.search_all([Query(words=words)], top_k=2)[0]
        assert [match.document.id for match in matches][: len(wanted)] == wanted
    assert not matches.is_counted
    index.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], DocumentIndex]:
    """Connects services whose clocks agree, and who look at each search for what others have written."""
    for name, value in (("INTERVAL_S", 0), ("OVERLAP_US", 1), ("PATIENCE_S", PATIENT_S), ("TEXTS_A_CALL", 1)):
        monkeypatch.setattr(f"service.documents.milvus.keywords.{name}", value)
    run = secrets.token_hex(16)
    return lambda url: connect(url, run)


def counted(index: DocumentIndex, words: str) -> int:
    """How many terms of a query documents have, as far as they are counted."""
    return len(index.keywords.wanted(words, typing=False).weights())


def test_own_changes_hide_no_words_of_others(server: MilvusServer, at_once: Callable[[str], DocumentIndex]) -> None:
    near, far = at_once(server.url), at_once(server.url)
    near.put([document("a", "kettle")], EAST[None])
    assert counted(near, "kettle") == 1
    far.put([document("b", "unicorn")], EAST[None])
    near.put([document("c", "lamp")], EAST[None])
    assert counted(near, "unicorn") == 1
    near.close()
    far.close()


def test_words_left_by_a_failed_look_are_counted_next(
    server: MilvusServer, at_once: Callable[[str], DocumentIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, read, reads = at_once(server.url), MilvusTable.rows, []
    for word in ("kettle", "lamp", "mug", "pan", "pot"):
        index.put([document(word, word)], EAST[None])

    def limited(table: MilvusTable, expression: str, fields: list[str], **options: Any) -> list[dict[str, Any]]:
        reads.extend(["text"] if "text" in fields else [])
        if len(reads) == 2:
            raise Overloaded("Milvus limits the rate", retry_after_s=1)
        rows = read(table, expression, fields, **options)
        return rows[::-1] if "revision" in fields else rows  # the newest first

    with monkeypatch.context() as busy:
        busy.setattr(MilvusTable, "rows", limited)
        assert counted(index, "kettle lamp mug pan pot") == 5  # all are asked for: one is known
    assert not index.keywords._is_whole
    assert counted(index, "kettle lamp mug pan pot unicorn") == 5
    index.close()


def test_words_put_while_all_are_looked_at_stay_counted(
    server: MilvusServer, at_once: Callable[[str], DocumentIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far, read = at_once(server.url), at_once(server.url), MilvusTable.rows
    near.put([document("a", "kettle"), document("b", "lamp")], np.stack([EAST, NORTH]))
    assert counted(near, "kettle lamp") == 2
    far.delete(["a"])

    def then_put(table: MilvusTable, expression: str, *fields: Any, **options: Any) -> list[dict[str, Any]]:
        rows = read(table, expression, *fields, **options)
        if "revision > 0 " in expression:
            near.put([document("c", "unicorn")], UP[None])
        return rows

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(MilvusTable, "rows", then_put)
        assert counted(near, "kettle") == 0
    assert near.keywords._known([head_of("c")])
    near.close()
    far.close()


def test_a_change_waits_for_that_of_another_service(server: MilvusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.documents.milvus.index.WAIT_S", (0.01, 0.02))
    run = secrets.token_hex(16)
    near, far = connect(server.url, run), connect(server.url, run)
    near.put([document("a", n=0)], EAST[None])

    def slowly(name: str, before: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.05)
        return {**before, name: True}

    for _ in range(5):
        with monkeypatch.context() as patient, ThreadPoolExecutor(2) as pool:
            patient.setattr("service.documents.milvus.index.TRIES", 40)
            list(pool.map(lambda index: index.update_metadata("a", partial(slowly, str(id(index)))), (near, far)))
        assert len(near.get("a").metadata) == 3
        near.update_metadata("a", lambda before: {"n": 0})
    with near.changing("a"), pytest.raises(Conflict, match="change the document all the time"):
        far.update_metadata("a", lambda before: {"n": 1})
    assert ids(far, EAST, top_k=5) == ["a"]
    monkeypatch.setattr("service.documents.milvus.index.MARK_S", 0)  # a dead service's
    with near.changing("a"):
        time.sleep(0.01)
        assert far.update_metadata("a", lambda before: {"n": 1})
    assert near.get("a").metadata == {"n": 1}
    assert len(near.table.rows("number >= 0", ["row"], limit=9)) == 1
    near.close()
    far.close()


def test_others_see_a_configuration_within_a_second(server: MilvusServer) -> None:
    run = secrets.token_hex(16)
    near, far = connect(server.url, run), connect(server.url, run)
    assert far.own_fields is None
    own_fields = OwnFields.parsed("{title}. {größe}", ["price"])
    near.configure(own_fields)
    assert near.own_fields == own_fields
    time.sleep(STALENESS_MS / 1000)
    assert far.own_fields == own_fields
    far.put([document("a")], EAST[None])
    with pytest.raises(Conflict, match="it has 1 documents"):
        near.configure(None)
    longest = OwnFields.parsed("{title}", [f"{n:03}" + "ü" * 197 for n in range(100)])
    with pytest.raises(Conflict, match="it has 1 documents"):
        near.configure(longest)
    near.delete(["a"])
    near.configure(longest)
    near.configure(None)
    time.sleep(STALENESS_MS / 1000)
    assert far.own_fields is None
    near.close()
    far.close()


def test_a_metadata_change_may_be_a_collections_first_use(server: MilvusServer) -> None:
    manifest: Any = SimpleNamespace(fingerprint=secrets.token_hex(32), dim=DIM)
    near, far = (load_collections(Settings(index=server.url, index_timeout_s=PATIENT_S), manifest) for _ in range(2))
    near.put("shop", [document("a")], EAST[None])
    assert far.of("shop").update_metadata("a", lambda before: {"n": 1})
    assert near.of("shop").get("a").metadata == {"n": 1}
    near.close()
    far.close()


def test_a_read_that_began_before_a_change_does_not_hide_it() -> None:
    rows: list[dict[str, str]] = []
    asked, answered, levels = Event(), Event(), []

    def query(name: str, consistency_level: str, **arguments: object) -> list[dict[str, str]]:
        levels.append(consistency_level)
        found = list(rows)
        if len(levels) == 1:
            asked.set()
            answered.wait(PATIENT_S)
        return found

    client = SimpleNamespace(query=query, upsert=lambda name, data: rows.extend(data))
    connection: Any = SimpleNamespace(
        client=client, call=lambda method, *names, **arguments: method(*names, **arguments), exists=lambda name: True
    )
    configurations = Configurations(connection, "settings")
    with ThreadPoolExecutor(2) as threads:
        reading = threads.submit(configurations.recalibration, "shop")
        asked.wait(PATIENT_S)
        changing = threads.submit(configurations.set, "shop", None, Recalibration(0.2))
        wait([changing], 0.2)
        answered.set()
        assert (reading.result(), changing.result()) == (None, None)
    assert configurations.recalibration("shop") == Recalibration(0.2)
    assert levels == ["Bounded", "Strong"]


@pytest.mark.parametrize("part", ["drop", "delete"])
def test_a_failed_drop_separates_no_documents_from_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    collections, own_fields = lite_collections(tmp_path), OwnFields.parsed("{title}", ["price"])
    collections.configure("shop", own_fields)
    collections.put("shop", [document("a")], EAST[None], Versions(own_fields))
    with monkeypatch.context() as failing:
        away = {"drop": collections._connection, "delete": collections._connection.client}[part]
        failing.setattr(away, part, _unavailable)
        with pytest.raises(IndexUnavailable):
            collections.drop("shop")
    if part == "drop":
        assert (len(collections.of("shop")), collections.of("shop").own_fields) == (1, own_fields)
    else:
        collections.put("shop", [document("b")], EAST[None])
        assert (len(collections.of("shop")), collections.of("shop").own_fields) == (1, None)
    collections.close()


def _unavailable(*_: object, **__: object) -> None:
    raise IndexUnavailable("Milvus is away")


def test_what_needs_too_many_documents_says_so(index: DocumentIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("search", "index"):
        monkeypatch.setattr(f"service.documents.milvus.{module}.MAX_READ", 2)
    index.put([document(f"{n}", p=[1, 4 + n, 10], n=n, t="ab") for n in range(3)], np.stack([EAST] * 3))
    count_, facets = index.counts(["n", "t"], most_values=9)
    assert (count_, facets["t"].counts, facets["t"].is_counted) == (3, {"ab": 2}, False)
    assert index.counts(["n"], most_values=9, filter_={"n": {"lt": 2}})[1]["n"].is_counted
    with pytest.raises(InvalidInput, match=r"more than 2 documents match, .*CROSSLET_INDEX.*narrower filter"):
        index.search_all([Query()], top_k=5)
    assert index.search_all([Query()], top_k=5, filter_={"n": {"lt": 2}})[0].total == 2


def test_a_put_that_broke_off_changes_nothing(index: DocumentIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(text: str, vector_D: np.ndarray) -> None:
        halves = ((0, 3), (3, 6))
        index.put([Document("a", text, {}, halves)], np.stack([vector_D, NORTH]))

    put("before", EAST)
    upsert = MilvusTable.upsert

    def break_off(table: MilvusTable, rows: list[dict[str, Any]]) -> None:
        upsert(table, [row for row in rows if row["number"]])
        if any(row["number"] == 0 for row in rows):
            raise IndexUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(MilvusTable, "upsert", break_off)
        with pytest.raises(IndexUnavailable):
            put("after!", UP)
    for query_D, passage in ((EAST, "bef"), (NORTH, "ore")):
        (match,) = index.search_all([Query(query_D)], top_k=5)[0]
        assert (match.document.text, match.passage.text, match.score) == ("before", passage, 1.0)
    put("after!", UP)
    assert index.search_all([Query(NORTH)], top_k=5)[0][0].passage.text == "er!"
    assert index.delete(["a"]) == 1
    assert index.search_all([Query(NORTH)], top_k=5)[0] == []


def test_a_range_within_too_many_lists_is_refused(index: DocumentIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.documents.milvus.index.MAX_READ", 2)
    index.put([document(f"{n}", p=[1, 4 + n, 10], n=n, t="ab") for n in range(3)], np.stack([EAST] * 3))
    range_ = {"p": {"gte": 3, "lt": 5}}
    for filter_ in (range_, {"not": range_}, {"t": {"contains": "B"}}, {"not": {"t": {"contains": "c"}}}):
        for refused in (partial(count, index), index.delete_matching):
            with pytest.raises(InvalidInput, match=r"more than 2 documents may match.*CROSSLET_INDEX.*by other fields"):
                refused(filter_)
    assert count(index, range_ | {"n": {"lt": 2}}) == 1
    index.put([document("0", p=4, n=0)], EAST[None])
    assert index.delete_matching(range_) == 1
    assert len(index) == 2


def test_another_dim_under_the_same_name_is_refused(server: MilvusServer) -> None:
    connect(server.url, "1" * 16).close()
    with pytest.raises(StoreError, match=r"crosslet_1111111111111111 .* belongs to another model"):
        connect(server.url, "1" * 16, dim=DIM + 1)


def test_reading_makes_no_collection(server: MilvusServer) -> None:
    for _ in range(2):
        with pytest.raises(StartError, match="no collection crosslet_2222222222222222"):
            connect(server.url, "2" * 16, read_only=True)


def test_milvus_down_at_start_is_one_sentence() -> None:
    with (
        reserved_port() as port,
        pytest.raises(StartError, match=rf"Milvus at 127.0.0.1:{port} cannot be used .*CROSSLET_INDEX"),
    ):
        connect(f"milvus://127.0.0.1:{port}", timeout_s=TIMEOUT_S)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started_at = time.monotonic()
        with pytest.raises(StartError, match="cannot be used"):
            connect(f"milvus://127.0.0.1:{silent.getsockname()[1]}", timeout_s=TIMEOUT_S)
        assert time.monotonic() - started_at < 3 * TIMEOUT_S


def test_dead_milvus_is_503_while_texts_are_embedded(serve: Serve, tmp_path: Path) -> None:
    with milvus_server(tmp_path / "milvus") as server:
        client = serve(index=server.url, index_timeout_s=TIMEOUT_S)
        documents = [{"id": "a/1", "text": "hallo", "metadata": {"lang": "de"}}]
        assert client.put("/documents", json={"documents": documents}).status_code == 200
        found = client.post("/search", json={"query": "hallo", "filter": {"lang": "de"}}).json()["results"]
        assert [one["id"] for one in found] == ["a/1"]
        index = client.get("/info").json()["index"]
        assert (index["backend"], index["documents"], index["recall"]) == ("milvus", 1, None)
        assert "crosslet_index_documents 1.0" in client.get("/metrics").text
        server.kill()
        for method, path, body in [
            ("PUT", "/documents", {"documents": documents}),
            ("POST", "/search", {"query": "hallo"}),
            ("POST", "/documents/delete", {"filter": {"lang": "de"}}),
            ("GET", "/documents", None),
            ("GET", "/documents/a/1", None),
            ("DELETE", "/documents/a/1", None),
            ("GET", "/info", None),
        ]:
            started_at = time.monotonic()
            answer = client.request(method, path, json=body)
            assert (answer.status_code, answer.json()["error_type"]) == (503, "Backend"), (method, path)
            assert "CROSSLET_INDEX" in answer.json()["error"]
            assert time.monotonic() - started_at < 4 * TIMEOUT_S
        assert "crosslet_index_documents NaN" in client.get("/metrics").text
        assert client.get("/ready").status_code == 200
        assert client.post("/embed", json={"inputs": ["hallo"]}).status_code == 200


def test_restarted_or_stalled_milvus_is_used_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with milvus_server(tmp_path / "milvus") as server:
        index = connect(server.url, timeout_s=TIMEOUT_S)
        index.put([document("a")], EAST[None])
        server.process.send_signal(19)  # SIGSTOP: it holds its port, and answers nothing
        with pytest.raises(IndexUnavailable, match=f"did not answer within {TIMEOUT_S:g} s"):
            search_one(index, EAST, top_k=1)
        server.process.send_signal(18)  # SIGCONT
        assert ids(index, EAST, 1) == ["a"]
        server.kill()
        started_at = time.monotonic()
        with pytest.raises(IndexUnavailable, match=r"starting or unreachable after 5 s .* try again later"):
            index.get("named a")
        assert time.monotonic() - started_at > TIMEOUT_S - 1
        assert all(record.__dict__["reason"] for record in caplog.records[-2:])
        assert "named a" not in caplog.text
    with milvus_server(tmp_path / "milvus", server.port):  # milvus-lite, unlike a server, forgets what was loaded
        assert ids(index, EAST, 1) == ["a"]
    index.close()


def test_reads_are_a_second_behind_and_see_own_writes() -> None:
    second = 1000 << LOGICAL_BITS
    for writes, last_write in ((0, 0), (2, 7 * second)):
        clock = Clock(9 * second, time.monotonic() - 3, writes, last_write)
        assert 11 * second <= clock.oldest(STALENESS_MS) < 12 * second
    assert Clock(9 * second, time.monotonic(), 1, 9 * second).oldest(STALENESS_MS) == 9 * second


def test_the_search_command_searches_milvus(
    server: MilvusServer,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    serve: Serve,
) -> None:
    client = serve(index=server.url, index_timeout_s=PATIENT_S)
    client.put("/documents", json={"documents": [{"id": "a", "text": "hallo"}]})
    monkeypatch.setenv("CROSSLET_INDEX", server.url)
    assert cli.main(["search", "hallo", "--model", str(tiny_model)]) == 0
    assert '"id":"a"' in capsys.readouterr().out


def test_the_event_loop_never_waits_for_milvus(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call, on_loop = MilvusConnection.call, []

    def watched(connection: MilvusConnection, method: Any, *args: Any, **options: Any) -> Any:
        with suppress(RuntimeError):
            on_loop.append((asyncio.get_running_loop(), method.__name__))
        return call(connection, method, *args, **options)

    client = serve(index=f"milvus+lite://{tmp_path}/documents.db", index_timeout_s=PATIENT_S)
    monkeypatch.setattr(MilvusConnection, "call", watched)
    shop, body = "/collections/shop", {"documents": [{"id": "a", "text": "hallo", "metadata": {"n": 1}}]}
    assert client.put(shop, json={}).json().items() >= {"name": "shop", "documents": 0, "text": None}.items()
    lines = {"content": b'{"id": "b", "text": "hallo"}', "headers": {"content-type": "application/x-ndjson"}}
    for path in ("", shop, "/collections/new"):
        assert client.put(f"{path}/documents", json=body).status_code == 200
        assert client.put(f"{path}/documents", **lines).status_code == 200
        assert client.patch(f"{path}/documents/a", json={"metadata": {"n": 2}}).status_code == 200
        assert client.get(f"{path}/documents/a").json()["metadata"] == {"n": 2}
        found = client.post(f"{path}/search", json={"like": "b", "facets": ["n"], "filter": {"n": 2}}).json()
        assert ([one["id"] for one in found["results"]], found["facets"]) == (["a"], {"n": {"2": 1}})
    for name, status in (("default", 409), ("shop", 409), ("new", 409), ("own", 200)):
        assert client.put(f"/collections/{name}", json={"text": "{title}"}).status_code == status
    goods = {"documents": [{"id": "a", "title": "hallo"}]}
    assert client.put("/collections/own/documents", json=goods).status_code == 200
    changed = client.patch("/collections/own/documents/a", json={"metadata": {"title": "Welt"}})
    assert changed.status_code == 200
    assert client.get("/collections/own/documents/a").json()["text"] == "Welt"
    for mode in ("keywords", "hybrid"):
        found = client.post("/collections/own/search", json={"query": "welt", "mode": mode, "include": ["highlights"]})
        assert [one["id"] for one in found.json()["results"]] == ["a"]
    assert client.delete("/collections/own").status_code == 200
    collections = client.get("/collections").json()["collections"]
    assert [(one["name"], one["documents"], one["fields"]) for one in collections] == [
        (name, 2, None) for name in ("default", "new", "shop")
    ]
    assert client.get("/info").json()["collections"] == collections
    assert client.get("/metrics").status_code == client.get("/ready").status_code == client.get("/").status_code == 200
    assert client.delete(shop).json() == {"dropped": "shop", "documents": 2}
    assert on_loop == []


def test_one_dropped_while_all_are_listed_is_left_out(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(index=f"milvus+lite://{tmp_path}/documents.db", index_timeout_s=PATIENT_S)
    client.put("/collections/shop", json={})
    names = MilvusConnection.names

    def then_dropped(connection: MilvusConnection) -> list[str]:
        found = names(connection)
        for name in found:
            if name.endswith("_shop"):
                connection.client.drop_collection(name)  # by another service
        return found

    with monkeypatch.context() as other:
        other.setattr(MilvusConnection, "names", then_dropped)
        for path in ("/collections", "/info"):
            listed = client.get(path).json()["collections"]
            assert [one["name"] for one in listed] == ["default"]
            client.put("/collections/shop", json={})
    assert {one["name"] for one in client.get("/collections").json()["collections"]} == {"default", "shop"}


def test_what_tools_make_beside_collections_is_not_listed(tmp_path: Path) -> None:
    collections = lite_collections(tmp_path)
    collections.put("a.b_c", [document("a")], EAST[None])
    connection = collections._connection
    for name in ("a_bak", "_5", "_20", ""):  # as milvus-backup restores them
        connection.client.create_collection(f"crosslet_{'5' * 16}_{name}", dimension=DIM)
    assert [*collections.named()] == ["default", "a.b_c"]
    assert collections.count() == 1
    collections.close()


def test_names_that_are_asked_for_take_no_memory(tmp_path: Path) -> None:
    collections = lite_collections(tmp_path)
    shop = collections.of("shop")
    collections.put("shop", [document("a")], EAST[None])
    with ThreadPoolExecutor(8) as threads:
        for index in threads.map(lambda n: collections.of(f"n{n % 500}"), range(5000)):
            assert not index.table.is_open
    assert len(collections._indexes) < 20
    assert collections.of("shop") is shop
    collections.close()


def test_documents_in_milvus_are_backed_up_there(server: MilvusServer, serve: Serve) -> None:
    response = serve(index=server.url, index_timeout_s=PATIENT_S).post("/backup")
    assert response.status_code == 422
    assert response.json()["error"] == "the documents are in Milvus (CROSSLET_INDEX): back them up there"


@pytest.mark.parametrize(
    ("index", "uri", "database"),
    [
        ("milvus://localhost", "http://localhost:19530", ""),
        ("milvus://10.0.0.1:9091/docs", "http://10.0.0.1:9091", "docs"),
        ("milvus+tls://milvus.example:443/", "https://milvus.example:443", ""),
        ("milvus://[::1]:19530", "http://[::1]:19530", ""),
        ("milvus+lite:///data/documents.db", "/data/documents.db", ""),
    ],
)
def test_an_address_is_read(index: str, uri: str, database: str) -> None:
    address = milvus_address(index)
    assert (address.uri, address.database) == (uri, database)


@pytest.mark.parametrize(
    "index",
    [
        *("", "milvus", "http://host:19530", "milvus://", "milvus://host:x", "milvus://h/a/b"),
        *("milvus+lite://a.db", "milvus://h?x=1"),
    ],
)
def test_another_address_is_refused_with_the_forms_there_are(index: str) -> None:
    with pytest.raises(StartError, match=r"CROSSLET_INDEX .*milvus"):
        milvus_address(index)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(StartError, match="CROSSLET_INDEX_TOKEN") as caught:
        milvus_address("milvus://root:hunter2@host:19530")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in Settings(index_token="root:hunter2").model_dump_json()


NUMBERS = (
    st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False) | st.sampled_from([2**53, 2**53 + 1, 2.0**53])
)


@given(left=NUMBERS, right=NUMBERS)
def test_numbers_sort_as_text_exactly_as_they_do_as_numbers(left: float, right: float) -> None:
    assert (_sortable(left) < _sortable(right), _sortable(left) == _sortable(right)) == (left < right, left == right)


@given(left=st.text(max_size=300), right=st.text(max_size=30))
def test_long_strings_sort_like_whole_strings(left: str, right: str) -> None:
    assert (_sortable(left) < _sortable(right)) == (left.encode() < right.encode())
    assert (_sortable(left) == _sortable(right)) == (left == right)


@given(key=st.text(), value=st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none())
def test_expression_quotes_only_digests_and_hex_digits(key: str, value: Any) -> None:
    filter_ = {"not": {key or "k": {"in": [value]}}} if key not in {"and", "or", "not"} else {"x": value}
    quoted = re.findall(r'"([^"]*)"', to_expression(filter_).sure)
    assert quoted
    assert all(re.fullmatch("k[0-9a-f]{32}", one) for one in quoted)


def test_the_tokens_of_two_keys_or_kinds_never_meet() -> None:
    held = [searchable(one).tokens for one in ({"x": 1}, {"x": "1"}, {"x": True}, {"x1": ""}, {"x": "x"})]
    for one, other in pairwise(held):
        assert len(set(one) & set(other)) <= 1  # that the key is there
