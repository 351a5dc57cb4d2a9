"""A store whose files are moved, deleted, replaced or linked while a service has them open, and who may read them."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from service.documents import search
from service.documents.collections import Collection
from service.documents.document import Document
from service.errors import Damaged, NotReady, StoreError, StoreInUse
from service.offline.backup import restore, write_backup
from service.offline.store_file import open_store_file
from tests.service.conftest import Serve, bearer
from tests.service.documents import stores
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import (
    INVERTED,
    STORE,
    count_stored,
    open_store,
    put_numbered,
    unit_vectors,
    wait_for,
)

EXACT = 400
open_collection = partial(stores.open_collection, exact_rows=EXACT)
NDJSON = {"content-type": "application/x-ndjson"}
ROOT = Path(__file__).parents[3]
OPEN_ELSEWHERE = """
import sys, time
from pathlib import Path
from service.documents.store.store import DocumentStore
store = DocumentStore(Path(sys.argv[1]), fingerprint="aa", dim=4)
print("open", flush=True)
sys.stdin.readline()
store.close()
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Collection]:
    """A collection of two documents in a folder of its own."""
    collection = open_collection(tmp_path / "data")
    put_numbered(collection, unit_vectors(2))
    yield collection
    collection.close()


def another(folder: Path) -> Path:
    """A store of another service, with one document."""
    collection = open_collection(folder)
    put_numbered(collection, unit_vectors(1, seed=4), first=9)
    collection.close()
    return folder


def deleting(name: str) -> Callable[[Path], None]:
    def delete(data: Path) -> None:
        (data / name).unlink()

    delete.__name__ = f"delete {name}"
    return delete


def move_away(data: Path) -> None:
    (data / STORE).rename(data / "moved")


def replace(data: Path) -> None:
    (another(data.with_name("other")) / STORE).rename(data / STORE)


def rename_folder(data: Path) -> None:
    data.rename(data.with_name("renamed"))


def replace_folder(data: Path) -> None:
    rename_folder(data)
    another(data)


CHANGES = [
    *(move_away, replace, rename_folder, replace_folder, shutil.rmtree),
    *map(deleting, (STORE, f"{STORE}-wal", f"{STORE}-shm", "documents.lock", "documents.revision")),
]


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_accepted_once_the_files_are_gone(
    running: Collection, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    change(tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    uses: list[Callable[[], object]] = [
        lambda: put_numbered(running, unit_vectors(1), first=5),
        lambda: running.delete(["d0"]),
        lambda: running.delete_matching({"half": True}),
        lambda: running.update_metadata("d0", lambda metadata: {}),
        lambda: running._store.catalog.create("shop", most=9),
        lambda: running._store.note("key", "value"),
        running._store.check_files,
    ]
    for use in uses:
        with pytest.raises(NotReady, match=r"put the same file back \(CROSSLET_DATA\), or start the service anew"):
            use()
    assert sorted(tmp_path.rglob("*")) == before
    assert len(running) == 2
    assert running.get("d1") is not None  # what is open still answers


def test_a_file_that_goes_during_a_change_is_not_accepted(running: Collection, tmp_path: Path) -> None:
    def write() -> None:
        with running._store.transaction() as transaction:
            transaction.upsert([Document("late", "text", {})], unit_vectors(1))
            shutil.rmtree(tmp_path / "data")
            transaction.commit()

    with pytest.raises(NotReady):
        write()


def test_a_store_that_comes_back_goes_on(running: Collection, tmp_path: Path) -> None:
    rename_folder(tmp_path / "data")
    with pytest.raises(NotReady):
        put_numbered(running, unit_vectors(1), first=5)
    (tmp_path / "renamed").rename(tmp_path / "data")
    put_numbered(running, unit_vectors(1), first=5)
    running.close()
    assert count_stored(tmp_path / "data") == 3


@pytest.mark.parametrize("change", [deleting(STORE), shutil.rmtree, replace_folder])
def test_a_late_reader_opens_no_other_store(
    running: Collection, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    change(tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    with running._store.snapshot(), ThreadPoolExecutor() as another_thread, pytest.raises(NotReady):
        another_thread.submit(running.get, "d1").result()
    assert sorted(tmp_path.rglob("*")) == before


def test_closing_a_replaced_store_leaves_the_new_one_whole(tmp_path: Path) -> None:
    old = open_collection(tmp_path / "data")
    put_numbered(old, unit_vectors(EXACT + 100))
    wait_for(lambda: old.backend == INVERTED)
    put_numbered(old, unit_vectors(5, seed=3), first=9000)
    rename_folder(tmp_path / "data")
    new = open_collection(tmp_path / "data")
    put_numbered(new, unit_vectors(3), first=70)
    old.close()
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "data", killed)  # with its log, as a kill leaves it
    new.close()
    assert not list(killed.glob("index*"))
    assert count_stored(killed, exact_rows=EXACT) == 3
    assert count_stored(tmp_path / "renamed", exact_rows=EXACT) == EXACT + 105


def test_one_store_has_one_service_whatever_its_links(tmp_path: Path) -> None:
    another(tmp_path / "data")
    (tmp_path / "soft").mkdir()
    (tmp_path / "soft" / STORE).symlink_to(tmp_path / "data" / STORE)
    (tmp_path / "folder").symlink_to(tmp_path / "data")
    command = [sys.executable, "-c", OPEN_ELSEWHERE, str(tmp_path / "soft" / STORE)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        for name in ("data", "soft", "folder"):
            with pytest.raises(StoreInUse, match="is in use by another process"):
                open_collection(tmp_path / name)
        process.communicate("\n")
    with closing(open_collection(tmp_path / "soft")) as collection:
        put_numbered(collection, unit_vectors(1))
    assert (tmp_path / "soft" / STORE).is_symlink()
    assert {path.name for path in (tmp_path / "soft").iterdir()} == {STORE}
    assert count_stored(tmp_path / "data") == 2


def test_a_store_with_two_names_is_refused(tmp_path: Path) -> None:
    another(tmp_path / "data")
    (tmp_path / "hard").mkdir()
    os.link(tmp_path / "data" / STORE, tmp_path / "hard" / STORE)
    uses: list[Callable[[Path], object]] = [
        open_collection,
        partial(open_store, read_only=True),
        lambda folder: write_backup(folder / STORE, tmp_path / "a.backup"),
        lambda folder: open_store_file(folder / STORE).__enter__(),
    ]
    for folder, use in product((tmp_path / "data", tmp_path / "hard"), uses):
        with pytest.raises(StoreError, match=r"has 2 names \(hard links\).*: remove the others"):
            use(folder)
    (tmp_path / "hard" / STORE).unlink()
    assert count_stored(tmp_path / "data") == 1


def write_text(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough" * 100)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path), write_text])
def test_a_store_that_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / STORE)
    with pytest.raises(StoreError, match=r"cannot be used|is no file"):
        open_collection(tmp_path)


def test_a_search_beside_another_writer_ends(
    running: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LONGEST_CHANGE_S", 0.2)
    command = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    command += "c.execute('UPDATE collections SET revision = revision + 1'); c.commit()"
    subprocess.run([sys.executable, "-c", command, str(tmp_path / "data" / STORE)], check=True)
    before = time.monotonic()
    with pytest.raises(NotReady, match="another process changes the store"):
        search_one(running, unit_vectors(1)[0], top_k=1)
    assert time.monotonic() - before < 10


def test_a_restore_follows_a_link_and_replaces_a_loop_of_links(tmp_path: Path) -> None:
    another(tmp_path / "data")
    (tmp_path / "a.backup").symlink_to("a.backup")
    written = write_backup(tmp_path / "data" / STORE, tmp_path / "a.backup")
    (tmp_path / STORE).symlink_to(STORE)
    assert restore(tmp_path / "a.backup", tmp_path / STORE).documents == written.documents == 1
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / STORE).symlink_to(tmp_path / "data" / STORE)
    restored = restore(tmp_path / "a.backup", tmp_path / "link" / STORE, force=True)
    assert (tmp_path / "link" / STORE).is_symlink()
    with open_store_file(tmp_path / "data" / STORE) as file:
        assert file.revision == restored.revision == 2


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_only_their_owner_may_read_the_documents(tmp_path: Path) -> None:
    collection = open_collection(tmp_path / "data")
    put_numbered(collection, unit_vectors(EXACT + 100))
    wait_for(lambda: (tmp_path / "data" / "index.json").exists())
    write_backup(tmp_path / "data" / STORE, tmp_path / "a.backup")
    found = modes(tmp_path / "data") | modes(tmp_path)
    collection.close()
    restore(tmp_path / "a.backup", tmp_path / "restored" / STORE)
    found |= {f"restored {name}": mode for name, mode in modes(tmp_path / "restored").items()}
    folders = {name: found.pop(name) for name in ("data", "a.backup")}
    assert folders["a.backup"] == 0o600
    assert {f"{STORE}{suffix}" for suffix in ("", "-wal", "-shm")} | {"index.json"} < found.keys()
    assert set(found.values()) == {0o600}, found


@pytest.mark.parametrize(
    ("name", "keys", "mode"), [("data", "", 0o644), ("data", "full", 0o600), ("link", "full", 0o600)]
)
def test_keys_make_a_readable_store_private(serve: Serve, tmp_path: Path, name: str, keys: str, mode: int) -> None:
    serve(data=tmp_path / "data").__exit__(None, None, None)
    (tmp_path / "data" / STORE).chmod(0o644)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / STORE).symlink_to(tmp_path / "data" / STORE)
    serve(data=tmp_path / name, api_keys=keys)
    assert modes(tmp_path / "data")[STORE] == mode


def test_a_link_beside_the_store_is_never_written_through(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("documents.lock", "documents.revision"):
        link = tmp_path / "data" / name
        link.symlink_to(victim)
        with pytest.raises(StoreError, match=r"cannot be (written|used)"):
            open_collection(tmp_path / "data")
        link.unlink()
    for name in ("index.new", "index.json.new", "documents.restored.sqlite3", "documents.backup.sqlite3"):
        (tmp_path / "data" / name).symlink_to(victim)
    collection = open_collection(tmp_path / "data")
    put_numbered(collection, unit_vectors(EXACT + 100))
    wait_for(lambda: (tmp_path / "data" / "index.json").exists())
    collection.close()
    write_backup(tmp_path / "data" / STORE, tmp_path / "a.backup")
    restore(tmp_path / "a.backup", tmp_path / "data" / STORE, force=True)


def test_a_service_whose_store_is_gone_says_so(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    client = serve(data=data, api_keys="full")
    client.headers.update(bearer("full"))
    document = {"documents": [{"id": "a", "text": "A man is playing a guitar."}]}
    assert client.put("/documents", json=document).status_code == 200
    assert client.get("/ready").status_code == 200
    data.rename(tmp_path / "renamed")
    answers = [
        client.get("/ready"),
        client.put("/documents", json=document),
        client.put("/documents", content=b'{"id": "b", "text": "b"}\n', headers=NDJSON),
        client.post("/documents/delete", json={"ids": ["a"]}),
        client.patch("/documents/a", json={"metadata": {"n": 1}}),
        client.put("/collections/shop/documents", json=document),
        client.post("/backup"),
    ]
    for answer in answers:
        assert answer.status_code == 503, answer.text
        assert answer.json()["error_type"] == "NotReady"
        assert "put the same file back (CROSSLET_DATA), or start the service anew" in answer.json()["error"]
    assert client.get("/health").status_code == 200
    assert not data.exists()
    (tmp_path / "renamed").rename(data)
    assert client.get("/ready").status_code == 200
    assert client.put("/documents", json=document).status_code == 200


def test_a_backup_is_of_the_open_store_wherever_a_link_leads(serve: Serve, tmp_path: Path) -> None:
    another(tmp_path / "other")
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    client = serve(data=tmp_path / "link")
    assert client.put("/documents", json={"documents": [{"id": "ours", "text": "one"}]}).status_code == 200
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "a.backup").write_bytes(client.post("/backup").content)
    with open_store_file(tmp_path / "a.backup") as file:
        assert [document.id for document in file.documents(with_vectors=False)] == ["ours"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE fields SET value = 1 WHERE key = 'half' AND row = 2",  # another document seems to match
        "UPDATE fields SET key = 'hblf' WHERE key = 'half' AND row = 1",
        "UPDATE fields SET row = 2 WHERE key = 'half' AND row = 1",
    ],
)
def test_a_filter_over_damaged_fields_deletes_nothing(tmp_path: Path, statement: str) -> None:
    collection = open_collection(tmp_path)
    put_numbered(collection, unit_vectors(4))  # d0 and d2 are `half`
    collection._store.writer.execute(statement)
    with pytest.raises(Damaged, match=r"the filterable metadata of document .* is damaged"):
        collection.delete_matching({"not": {"half": False}})
    assert len(collection) == 4
    for number in range(4):
        put_numbered(collection, unit_vectors(1, seed=number), first=number)
    assert collection.delete_matching({"half": True}) == 2
    collection.close()
