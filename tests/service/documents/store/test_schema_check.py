"""Stores that another program changed: what they hide, and what no release writes into them."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from service.documents.store.connections import connect
from service.documents.store.schema_check import LARGEST_NUMBER, LARGEST_RESTORED
from service.errors import StartError, StoreError
from service.offline.backup import restore, write_backup
from tests.service.documents.stores import EAST, NORTH, STORE, UP, count_stored, open_collection, open_store, put

ANOTHER = "was changed by another program"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A store of two collections with three documents."""
    folder = tmp_path / "source"
    collection = open_collection(folder)
    put(collection, {"a": EAST, "b": NORTH, "c": UP}, {"n": 1})
    collection._store.catalog.create("shop", most=9)
    collection.close()
    return folder


def execute(folder: Path, script: str) -> None:
    with closing(sqlite3.connect(folder / STORE)) as connection:
        connection.executescript(script)


def edited(before: str, after: str) -> str:
    """SQL that changes a statement of the schema behind SQLite's back."""
    return f"PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, '{before}', '{after}')"  # noqa: S608


def assert_refused_everywhere(folder: Path, sentence: str) -> None:
    """By a start, by a reader, by a backup, by a restore; the store that is there stays."""
    target = folder.parent / "target"
    shutil.copytree(folder, target)
    before = (folder / STORE).read_bytes()
    uses: list[Callable[[], object]] = [
        lambda: open_collection(folder),
        lambda: open_store(folder, read_only=True),
        lambda: write_backup(folder / STORE, folder.parent / "a.backup"),
        lambda: restore(folder / STORE, target / STORE, force=True),
    ]
    for use in uses:
        with pytest.raises(StartError, match=sentence):
            use()
    assert not (folder.parent / "a.backup").exists()
    assert (target / STORE).read_bytes() == before


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END", "it has the trigger 't'"),
        ("CREATE TRIGGER t AFTER UPDATE ON store BEGIN SELECT 1; END", "it has the trigger 't'"),
        ("CREATE VIEW v AS SELECT 1", "it has the view 'v'"),
        ("CREATE TABLE extra (x)", "it has the table 'extra'"),
        ("CREATE TABLE keywords_7 (x)", "it has the table 'keywords_7'"),
        ("CREATE TABLE keywords_1_more (x)", "it has the table 'keywords_1_more'"),
        ("CREATE UNIQUE INDEX once ON documents (text)", "it has the index 'once'"),
        ("CREATE INDEX x ON passages (abs(start))", "it has the index 'x'"),
        ("DROP INDEX documents_by_revision", "it lacks the index 'documents_by_revision'"),
        ("DROP TABLE keywords_2", "it lacks the table 'keywords_2"),
        ("DROP TABLE keywords_1; CREATE VIRTUAL TABLE keywords_1 USING fts5(terms)", "keywords_1"),
        ("ALTER TABLE documents ADD COLUMN more AS (abs(row))", "its table 'documents' is not as crosslet makes it"),
        ("ALTER TABLE fields ADD COLUMN more", "its table 'fields' is not as crosslet makes it"),
        (edited("id TEXT NOT NULL", "id TEXT NOT NULL COLLATE NOCASE"), "its table 'documents' is not as"),
        (edited("id TEXT NOT NULL", "id TEXT NOT NULL CHECK (id < ''d'')"), "its table 'documents' is not as"),
        (edited("text TEXT NOT NULL", "text TEXT NOT NULL ON CONFLICT IGNORE"), "its table 'documents' is not as"),
        (edited("kind TEXT NOT NULL", "kind TEXT NOT NULL COLLATE RTRIM"), "its table 'fields' is not as"),
        ("DROP TABLE passages; CREATE VIEW passages AS SELECT * FROM documents", "it has the view 'passages'"),
        ("ANALYZE", "it has the table 'sqlite_stat1'"),
    ],
)
def test_a_table_that_crosslet_does_not_make_is_refused(source: Path, script: str, fault: str) -> None:
    execute(source, script)
    assert_refused_everywhere(source, f"{ANOTHER}: .*{fault}")


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE store SET value = '9223372036854775806' WHERE key = 'revision'",
        "UPDATE store SET value = '-1' WHERE key = 'revision'",
        "UPDATE store SET value = '1_0' WHERE key = 'revision'",
        "UPDATE store SET value = x'31' WHERE key = 'revision'",
        "UPDATE store SET value = '0' WHERE key = 'dim'",
        "UPDATE store SET value = '8' WHERE key = 'dim'",
        "UPDATE documents SET row = 1 << 60 WHERE row = 3",
        "UPDATE documents SET row = -3 WHERE row = 3",
        "UPDATE passages SET passage = 1 << 60 WHERE row = 3",
        "UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'documents'",
        "UPDATE sqlite_sequence SET seq = 'many' WHERE name = 'passages'",
        "UPDATE collections SET documents = -3",
        "UPDATE collections SET documents = 'three'",
        "UPDATE collections SET revision = 1 << 62",
        "UPDATE collections SET revision = 'last'",
        "UPDATE collections SET settings = '[]'",
        "UPDATE collections SET settings = '{\"chunk\": 7}'",
        "UPDATE collections SET settings = 'none'",
        "UPDATE collections SET settings = '{\"text\": 7}'",
        'UPDATE collections SET settings = \'{"confidence": {"scale": 0}}\'',
        'UPDATE collections SET settings = \'{"text": "{a"}\'',
        'UPDATE collections SET settings = \'{"text": "{a}", "fields": "a"}\'',
        'UPDATE collections SET settings = \'{"text": "{a}", "fields": [7]}\'',
        'UPDATE collections SET settings = \'{"text": null, "fields": ["a"]}\'',
        "UPDATE collections SET name = 'a/b' WHERE name = 'shop'",
        "UPDATE collections SET name = 'other' WHERE name = 'default'",
        "PRAGMA user_version = 7",
    ],
)
def test_a_number_that_crosslet_never_writes_is_refused(source: Path, script: str) -> None:
    execute(source, script)
    with pytest.raises(StoreError, match=r"changed by another program|is damaged: its (revision|vectors)"):
        open_collection(source)
    with pytest.raises(StoreError):
        restore(source / STORE, source.parent / "target" / STORE)


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE passages SET start = 'first' WHERE row = 1",
        "UPDATE passages SET stop = 6.5 WHERE row = 1",
        "UPDATE passages SET vector = 'text' WHERE row = 1",
        "UPDATE passages SET collection = 2 WHERE row = 1",
        "UPDATE fields SET collection = 2 WHERE row = 1",
        "UPDATE documents SET revision = 0.5 WHERE row = 1",
        "UPDATE documents SET revision = 'last' WHERE row = 1",
        "UPDATE documents SET revision = -1 WHERE row = 1",
        "UPDATE documents SET revision = 1 << 62 WHERE row = 1",
        "UPDATE documents SET id = CAST(id AS BLOB) WHERE row = 1",
        "UPDATE documents SET text_checksum = 'x' WHERE row = 1",
        "UPDATE documents SET is_truncated = 'x' WHERE row = 1",
        "UPDATE passages SET passage = 9 WHERE row = 1",
    ],
)
def test_a_restore_finds_what_sqlite_takes_in_any_row(source: Path, script: str) -> None:
    execute(source, script)
    with pytest.raises(StoreError, match="is damaged, and nothing was restored"):
        restore(source / STORE, source.parent / "target" / STORE)


def test_a_restored_store_has_room_for_more_numbers(source: Path) -> None:
    execute(source, "UPDATE sqlite_sequence SET seq = (1 << 40) + 1 WHERE name = 'documents'")
    with pytest.raises(StoreError, match=f"last number of its 'documents' .* the limit is {LARGEST_RESTORED}"):
        restore(source / STORE, source.parent / "target" / STORE)
    with closing(open_collection(source)) as running:  # grown so far by itself, it goes on
        put(running, {"d": EAST})
    assert count_stored(source) == 4
    assert LARGEST_RESTORED < LARGEST_NUMBER


def test_a_reader_is_not_misled_by_a_collection_made_meanwhile(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(source)
    made = []

    def make_one(statement: str) -> None:
        if "FROM collections" in statement and not made:
            made.append("books")
            store.catalog.create("books", most=9)

    def watched(path: Path, mode: str) -> sqlite3.Connection:
        connection = connect(path, mode)
        connection.set_trace_callback(make_one)
        return connection

    store.catalog.listed()  # its own connections are open
    monkeypatch.setattr("service.documents.store.connections.connect", watched)
    open_store(source, read_only=True).close()
    assert made
    store.close()
