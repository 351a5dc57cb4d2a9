"""What only a real Milvus server shows: time between services, kills, restarts, users."""

import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest

from service.document_index import load_collection
from service.documents.document import Document
from service.documents.interface import DocumentIndex, Query
from service.errors import IndexUnavailable, InvalidInput, StartError, StorageFull
from tests.contract.milvus_standalone import START_TIMEOUT_S, MilvusStandalone, manifest_of
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import EAST, count, ids, put

pytestmark = pytest.mark.milvus
BATCH = 20
ROUNDS = 10


def index_is_away(index: DocumentIndex, reasons: list[str]) -> bool:
    started_at = time.monotonic()
    try:
        index.get("0")
    except IndexUnavailable as exc:
        reasons.append(str(exc))
    else:
        return False
    assert time.monotonic() - started_at < 20
    return True


@pytest.fixture
def two(standalone: MilvusStandalone) -> Iterator[tuple[DocumentIndex, DocumentIndex]]:
    """The documents of one model in two services."""
    manifest, settings = manifest_of("cc" + secrets.token_hex(7)), standalone.settings(index_timeout_s=100)
    one, other = load_collection(settings, manifest), load_collection(settings, manifest)
    yield one, other
    one.close()
    other.close()


def test_another_services_writes_are_seen_in_a_second(two: tuple[DocumentIndex, DocumentIndex]) -> None:
    one, other = two
    for number in range(5):
        put(one, {f"{number}": EAST})
        time.sleep(1)
        assert other.get(f"{number}") is not None
        assert len(ids(other, EAST, 10)) == number + 1
    put(other, {"0": EAST}, {"n": 1})
    assert one.documents_of(["0"])["0"].metadata == {"n": 1}  # what a put is compared with is the latest
    assert one.delete(["0", "1"]) == 2
    time.sleep(1)
    assert len(other) == 3


def test_a_service_sees_what_it_wrote_itself(two: tuple[DocumentIndex, DocumentIndex]) -> None:
    one, other = two
    for number in range(10):
        index = (one, other)[number % 2]
        put(index, {"a": EAST, f"{number}": EAST}, {"n": number})
        assert index.get("a").metadata == {"n": number}
        assert f"{number}" in ids(index, EAST, 20, filter_={"n": number})
        assert index.delete([f"{number}"]) == 1
        assert index.get(f"{number}") is None
    assert count(one, {"n": 9}) == 1


def test_reads_do_not_wait_for_a_tick(two: tuple[DocumentIndex, DocumentIndex]) -> None:
    index, _ = two
    put(index, {"a": EAST})
    search_one(index, EAST, top_k=1)
    times = []
    for _ in range(20):
        started_at = time.monotonic()
        search_one(index, EAST, top_k=1)
        times.append(time.monotonic() - started_at)
    assert sorted(times)[10] < 0.1  # a tick is 0.2 s


def test_a_wrong_token_is_one_sentence_without_it(standalone: MilvusStandalone) -> None:
    if not standalone.token:
        pytest.skip("the server of CROSSLET_TEST_MILVUS may know no users")
    settings = standalone.settings().model_copy(
        update={"index_token": type(standalone.settings().index_token)("a:b4d")}
    )
    with pytest.raises(StartError, match=r"Milvus at .* cannot be used .*CROSSLET_INDEX") as caught:
        load_collection(settings, manifest_of("dd"))
    assert "b4d" not in str(caught.value)


def test_a_server_without_sparse_vectors_refuses_keywords(two: tuple[DocumentIndex, DocumentIndex]) -> None:
    index, _ = two
    put(index, {"a": EAST})
    if index.has_keywords:
        assert [match.document.id for match in index.search_all([Query(words="a")], top_k=1)[0]] == ["a"]
        return
    for query in (Query(words="a"), Query(EAST, "a"), Query(words="a", typing=True)):
        with pytest.raises(InvalidInput, match=r"need Milvus 2\.5, and this one lacks sparse vectors"):
            index.search_all([query], top_k=1)


def test_changes_of_two_services_at_once_are_all_kept(two: tuple[DocumentIndex, DocumentIndex]) -> None:
    one, other = two
    for _ in range(ROUNDS):
        put(one, {"a": EAST})
        with ThreadPoolExecutor(2) as pool:
            changes = [
                pool.submit(index.update_metadata, "a", lambda before, name=name: {**before, name: 1})
                for name, index in {"x": one, "y": other}.items()
            ]
            assert all(change.result() for change in changes)
        assert one.documents_of(["a"])["a"].metadata.keys() == {"x", "y"}


def test_a_slow_server_is_waited_for_and_a_dead_one_not(standalone: MilvusStandalone) -> None:
    if not standalone.token:
        pytest.skip("the server of CROSSLET_TEST_MILVUS is not ours to stop")
    index = load_collection(standalone.settings(index_timeout_s=10), manifest_of("ab" + secrets.token_hex(7)))
    put(index, {"a": EAST})
    with standalone.slowed():
        for number in range(3):
            put(index, {f"{number}": EAST})
            assert len(ids(index, EAST, 10)) == number + 2
    reasons: list[str] = []
    with standalone.stopped():
        assert index_is_away(index, reasons)
    assert "CROSSLET_INDEX_TIMEOUT_S" in reasons[0]
    until = time.monotonic() + START_TIMEOUT_S
    while index_is_away(index, reasons):
        assert time.monotonic() < until
    assert put(index, {"b": EAST})
    assert len(index) == 5
    index.close()


@pytest.mark.timeout(2 * START_TIMEOUT_S)
@pytest.mark.parametrize("fault", ["killed", "full disk"])
def test_a_fault_loses_no_answered_put(standalone: MilvusStandalone, fault: str) -> None:
    """SIGKILL under puts, or no room for them; then the server is well again, and requests wait or say why."""
    if not standalone.token or (fault == "full disk" and not standalone.has_own_disk):
        pytest.skip("the server of CROSSLET_TEST_MILVUS is not ours to kill, or no disk may be mounted")
    index = load_collection(standalone.settings(index_timeout_s=5), manifest_of("ee" + secrets.token_hex(7)))
    vectors_ND, answered = np.stack([EAST] * BATCH), 0
    length = 10 if fault == "killed" else 50_000

    def text_of(number: int) -> str:
        return f"text {number}".ljust(length)

    def put_next() -> None:
        numbers = range(answered * BATCH, (answered + 1) * BATCH)
        index.put([Document(f"{number}", text_of(number), {"n": number}) for number in numbers], vectors_ND)

    put_next()
    answered += 1
    fails = pytest.raises((IndexUnavailable, StorageFull), match="CROSSLET_INDEX")
    with standalone.full_disk() if fault == "full disk" else nullcontext():
        killer = threading.Timer(3, standalone.kill if fault == "killed" else lambda: None)
        killer.start()
        with fails:
            while True:
                put_next()
                answered += 1
        killer.join()
    if not standalone.is_running:
        standalone.start()
    reasons: list[str] = []
    until = time.monotonic() + START_TIMEOUT_S
    while index_is_away(index, reasons):
        assert time.monotonic() < until
    assert all("CROSSLET_INDEX" in reason for reason in reasons)
    stored = index.documents_of([f"{number}" for number in range(answered * BATCH)])
    assert {id_: document.text for id_, document in stored.items()} == {
        f"{number}": text_of(number) for number in range(answered * BATCH)
    }
    assert put(index, {"new": EAST})
    assert index.get("new") is not None
    index.close()
