"""What only a real Milvus server shows: time between services, kills, restarts, users."""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from service.document_index import load_collection
from service.documents.document import Document
from service.documents.interface import DocumentIndex
from service.errors import IndexUnavailable, StartError
from tests.contract.milvus_standalone import START_TIMEOUT_S, MilvusStandalone, manifest_of
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import EAST, count, ids, put

pytestmark = pytest.mark.milvus
BATCH = 20


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


@pytest.mark.timeout(2 * START_TIMEOUT_S)
def test_a_killed_server_loses_no_answered_put(standalone: MilvusStandalone) -> None:
    """SIGKILL under puts; then the server starts, and requests wait or say why."""
    if not standalone.token:
        pytest.skip("the server of CROSSLET_TEST_MILVUS is not ours to kill")
    index = load_collection(standalone.settings(index_timeout_s=5), manifest_of("ee" + secrets.token_hex(7)))
    vectors_ND, answered = np.stack([EAST] * BATCH), 0

    def put_next() -> None:
        numbers = range(answered * BATCH, (answered + 1) * BATCH)
        index.put([Document(f"{number}", f"text {number}", {"n": number}) for number in numbers], vectors_ND)

    killer = threading.Timer(3, standalone.kill)
    killer.start()
    with suppress(IndexUnavailable):
        while True:
            put_next()
            answered += 1
    killer.join()
    assert answered
    standalone.start()
    reasons: list[str] = []
    until = time.monotonic() + START_TIMEOUT_S
    while index_is_away(index, reasons):
        assert time.monotonic() < until
    assert all("CROSSLET_INDEX" in reason for reason in reasons)
    stored = index.documents_of([f"{number}" for number in range(answered * BATCH)])
    assert {id_: document.text for id_, document in stored.items()} == {
        f"{number}": f"text {number}" for number in range(answered * BATCH)
    }
    assert put(index, {"new": EAST})
    assert index.get("new") is not None
    index.close()
