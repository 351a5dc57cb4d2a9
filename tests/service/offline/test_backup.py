"""Backups made under writes, and what takes their place in a data folder."""

import shutil
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from service.documents.collections import Collection
from service.documents.document import Document
from service.documents.store import backup as pages
from service.errors import StartError, StorageFull, StoreError
from service.offline import backup as module
from service.offline.backup import restore, write_backup
from service.offline.repair import verify
from service.offline.store_file import open_store_file
from tests.service.documents.stores import STORE, open_collection, read_page, unit_vectors, wait_for

DIM, BATCH = 8, 5
BACKED_UP = {"a": 1, "b": 1, "c": 1}
LONG = "x" * 100_000  # of such documents a store has many steps


opened = partial(open_collection, dim=DIM)


def put(collection: Collection, *ids: str, text: str = "text", **metadata: int) -> int:
    return collection.put([Document(id_, text, dict(metadata)) for id_ in ids], unit_vectors(len(ids), DIM))


def contents(folder: Path) -> dict[str, int | None]:
    """Id -> metadata's `n`, as a service reads them."""
    collection = opened(folder)
    page = read_page(collection, limit=100_000, max_chars=10**9)
    collection.close()
    return {document.id: document.metadata.get("n") for document in page.documents}


def faults(path: Path) -> list[str]:
    with open_store_file(path) as file:
        return verify(file)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    collection = opened(folder)
    put(collection, "a", "b", "c", n=1)
    collection.close()
    return folder


@pytest.fixture
def copy(source: Path, tmp_path: Path) -> Path:
    write_backup(source / STORE, tmp_path / "a.backup")
    return tmp_path / "a.backup"


def test_backup_under_writes_has_all_answered_writes_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write puts a batch of new documents and replaces one that they all share."""
    monkeypatch.setattr(pages, "PAGES_A_STEP", 4)
    running = opened(tmp_path / "running")
    stopped, answered = threading.Event(), [0]

    def write() -> None:
        while not stopped.is_set():
            n = answered[0] + 1
            put(running, *(f"{n}/{place}" for place in range(BATCH)), "shared", text=f"text {n} " * 50, n=n)
            answered[0] = n

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(4):
            wait_for(lambda: answered[0] >= 20 * (number + 1))  # noqa: B023 - called at once
            before = answered[0]
            done = write_backup(tmp_path / "running" / STORE, tmp_path / f"{number}.backup")
            after = answered[0] + 1  # one may be on disk and not answered yet
            restored = tmp_path / str(number)
            assert restore(tmp_path / f"{number}.backup", restored / STORE).documents == done.documents
            assert faults(restored / STORE) == []
            found = contents(restored)
            last = found.pop("shared")
            assert last is not None
            assert before <= last <= after
            assert Counter(found.values()) == dict.fromkeys(range(1, last + 1), BATCH)
    finally:
        stopped.set()
        writer.join()
        running.close()


def test_backup_beside_writers_has_one_state_and_ends(tmp_path: Path) -> None:
    running = opened(tmp_path / "running")
    for number in range(100):
        put(running, f"d{number}", text=LONG)
    steps: list[int] = []

    def write_at_each_step(done_bytes: int, _all_bytes: int) -> None:
        steps.append(done_bytes)
        if len(steps) < 50:  # SQLite begins anew after each, and would never end
            put(running, f"later {len(steps)}")

    done = write_backup(tmp_path / "running" / STORE, tmp_path / "a.backup", advance=write_at_each_step)
    assert len(steps) >= 3
    assert len(set(steps)) == len(steps)
    assert len(running) == 100 + len(steps)
    running.close()
    restore(tmp_path / "a.backup", tmp_path / "restored" / STORE)
    assert set(contents(tmp_path / "restored")) == {f"d{number}" for number in range(100)}
    assert (done.documents, done.revision) == (100, 100)


def test_backup_replaces_an_older_one_only_when_whole(
    source: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {path.name for path in copy.parent.iterdir()} == {"source", copy.name}
    old = copy.read_bytes()
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10))
        with pytest.raises(StorageFull, match=r"a copy takes \d+ bytes; the disk of .* has 10 free"):
            write_backup(source / STORE, copy)
    assert copy.read_bytes() == old
    assert {path.name for path in copy.parent.iterdir()} == {"source", copy.name}
    collection = opened(source)
    put(collection, "d", n=2)  # only in the log
    write_backup(source / STORE, copy)
    collection.close()
    restore(copy, copy.parent / "restored" / STORE)
    assert contents(copy.parent / "restored") == BACKED_UP | {"d": 2}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (f"source/{STORE}", "is a file of the document store itself"),
        ("source/documents.lock", "is a file of the document store itself"),
        ("source", "is not a file"),
        ("nowhere/a.backup", "there is no folder"),
        ("a" * 300, "cannot be written"),
    ],
)
def test_a_place_that_is_none_for_a_backup_is_refused(source: Path, tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(StartError, match=sentence):
        write_backup(source / STORE, tmp_path / name)
    assert contents(source) == BACKED_UP


def test_restore_raises_the_revision_so_losses_are_noticed(source: Path, copy: Path) -> None:
    collection = opened(source)
    for number in range(5):
        last = put(collection, "a", f"new {number}", n=number)
    collection.close()
    with pytest.raises(StartError, match=r"there is a document store .* already; replace it with --force"):
        restore(copy, source / STORE)
    done = restore(copy, source / STORE, force=True)
    assert done.revision == last + 1
    assert contents(source) == BACKED_UP
    shutil.copyfile(copy, source / STORE)  # put back by hand: a loss
    with pytest.raises(StoreError, match=f"has revision 1, but revision {last + 1} was acknowledged"):
        opened(source)


def test_restore_replaces_a_killed_or_damaged_store_and_its_log(source: Path, copy: Path) -> None:
    running = opened(source)
    put(running, "a", "x", n=2)
    killed = Path(shutil.copytree(source, source.with_name("killed")))
    damaged = Path(shutil.copytree(source, source.with_name("damaged")))
    orphaned = Path(shutil.copytree(source, source.with_name("orphaned")))
    running.close()
    (damaged / STORE).write_bytes(b"not a database" * 1000)
    (orphaned / STORE).unlink()
    for folder in (killed, damaged, orphaned):
        assert (folder / f"{STORE}-wal").stat().st_size > 0
        assert restore(copy, folder / STORE, force=folder != orphaned).revision == 3
        assert contents(folder) == BACKED_UP
        assert {path.name for path in folder.iterdir()} == {STORE, "documents.lock", "documents.revision"}


def test_plain_copies_of_a_store_are_restored(source: Path, tmp_path: Path) -> None:
    lone, both = tmp_path / "lone", tmp_path / "both"
    lone.mkdir()
    shutil.copyfile(source / STORE, lone / "a")
    running = opened(source)
    put(running, "d", n=2)
    shutil.copytree(source, both)
    running.close()
    restore(lone / "a", tmp_path / "restored" / STORE)
    assert contents(tmp_path / "restored") == BACKED_UP
    assert {path.name for path in lone.iterdir()} == {"a"}
    restore(both / STORE, tmp_path / "restored" / STORE, force=True)
    assert contents(tmp_path / "restored") == BACKED_UP | {"d": 2}


def test_a_link_leads_to_a_store_with_its_log(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = opened(source)
    put(running, "d", n=2)  # only in the log
    (tmp_path / "link").symlink_to(source / STORE)
    assert restore(tmp_path / "link", tmp_path / "restored" / STORE).documents == 4
    monkeypatch.setattr("os.geteuid", lambda: 12345)  # may not make a log here
    assert write_backup(tmp_path / "link", tmp_path / "a.backup").documents == 4
    running.close()


def test_restore_is_refused_while_the_store_is_open(source: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = opened(source)
    with pytest.raises(StoreError, match="is in use by another process"):
        restore(copy, source / STORE, force=True)
    put(running, "d", n=2)
    monkeypatch.setattr(module, "READER_WAIT_S", 0.05)
    with open_store_file(source / STORE):
        running.close()
        with pytest.raises(StoreError, match=r"another process reads document store .*; run this again"):
            restore(copy, source / STORE, force=True)
    assert contents(source) == BACKED_UP | {"d": 2}


def test_what_is_no_sound_backup_is_refused_and_the_store_stays(source: Path, copy: Path, tmp_path: Path) -> None:
    def refused(content: bytes | None, sentence: str) -> None:
        bad = tmp_path / "bad"
        bad.unlink(missing_ok=True)
        if content is not None:
            bad.write_bytes(content)
        with pytest.raises(StartError, match=sentence):
            restore(bad, source / STORE, force=True)
        assert not (source / module.COPY).exists()
        assert contents(source) == BACKED_UP

    content = copy.read_bytes()
    refused(None, "there is no backup")
    refused(b"", r"cannot be copied as a document store \(no such table: store\)")
    refused(b"text" * 5000, r"cannot be copied as a document store \(file is not a database\)")
    refused(content[: len(content) // 2], "cannot be copied|is damaged")
    refused(content.replace(b'{"n":1}', b'{"n":7}'), "is damaged, and nothing was restored: document .* damaged text")
    with closing(sqlite3.connect(tmp_path / "newer")) as connection, connection:
        connection.deserialize(content)
        connection.execute("UPDATE store SET value = '99' WHERE key = 'schema_version'")
        connection.commit()
        newer = connection.serialize()
    refused(newer, "has schema 99; this crosslet reads 8")
    with pytest.raises(StartError, match="is the document store itself"):
        restore(source / STORE, source / STORE, force=True)
