"""The tables of the document store, and the migrations from older versions.

documents  id, text, metadata (JSON), vector (little-endian float32), revision of its last change, checksums
fields     one row a path of the metadata and scalar at its end, so that a filter is an index look-up
store      schema version, fingerprint of the model that made the vectors, dim, revision, snapshots of the index
"""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping

import orjson

from service.documents.store.fields import SqlValue, fields_of

SCHEMA_VERSION = 4
CHECKSUMS_SINCE = 3
PATHS_SINCE = 4  # before, `fields` has only the metadata's top-level keys
TABLES = """
CREATE TABLE store (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,
    vector BLOB NOT NULL,
    revision INTEGER NOT NULL,
    text_checksum INTEGER NOT NULL DEFAULT 0,
    vector_checksum INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE fields (
    key TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY (key, kind, value, row)
) WITHOUT ROWID;
CREATE INDEX fields_of_row ON fields (row);
CREATE INDEX documents_by_revision ON documents (revision);
"""
MIGRATIONS: Mapping[int, str] = {  # from a version to the next; never edited once released
    1: "CREATE INDEX documents_by_revision ON documents (revision);",
    2: """
ALTER TABLE documents ADD COLUMN text_checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE documents ADD COLUMN vector_checksum INTEGER NOT NULL DEFAULT 0;
UPDATE documents SET text_checksum = checksum(id, text, metadata), vector_checksum = checksum(vector);
""",
    3: "",  # the paths of nested values, which `migrate` adds
}
# The nested paths of an older store that is only read, in temporary tables of one connection.
SHADOW = """
CREATE TEMP TABLE paths (
    key TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY (key, kind, value, row)
) WITHOUT ROWID;
CREATE TEMP VIEW fields AS
SELECT key, kind, value, row FROM main.fields UNION ALL SELECT key, kind, value, row FROM paths;
"""


def checksum(*parts: str | bytes) -> int:
    """Return the CRC-32 of the parts and their lengths. SQLite does not detect flipped bits in texts and vectors."""
    value = 0
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        value = zlib.crc32(data, zlib.crc32(len(data).to_bytes(8, "little"), value))
    return value


def facts(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the contents of the table `store`."""
    return dict(connection.execute("SELECT key, value FROM store").fetchall())


def bring_up_to_date(connection: sqlite3.Connection, *, fingerprint: str, dim: int) -> None:
    """Create the tables of an empty file, or migrate an older version. A store without documents takes any model."""
    if is_blank(connection):
        create(connection, fingerprint=fingerprint, dim=dim)
    version = facts(connection).get("schema_version", "")
    if version.isdecimal() and int(version) in MIGRATIONS:
        migrate(connection, int(version))
    found = facts(connection)
    if found.get("schema_version") == str(SCHEMA_VERSION) and found.get("fingerprint") != fingerprint:
        change_model_of_empty(connection, fingerprint=fingerprint, dim=dim)


def is_blank(connection: sqlite3.Connection) -> bool:
    """Return whether a file has no tables yet."""
    return not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]


def create(connection: sqlite3.Connection, *, fingerprint: str, dim: int) -> None:
    """Create the tables of an empty file, in one transaction."""
    said = {"schema_version": SCHEMA_VERSION, "fingerprint": fingerprint, "dim": dim, "revision": 0}
    rows = ", ".join(f"('{key}', '{value}')" for key, value in said.items())
    connection.executescript(f"BEGIN;{TABLES}INSERT INTO store VALUES {rows};COMMIT;")  # noqa: S608


def change_model_of_empty(connection: sqlite3.Connection, *, fingerprint: str, dim: int) -> None:
    """Assign a store to another model, unless it holds vectors."""
    connection.execute(
        "UPDATE store SET value = CASE key WHEN 'fingerprint' THEN ? ELSE ? END "
        "WHERE key IN ('fingerprint', 'dim') AND NOT EXISTS (SELECT * FROM documents)",
        (fingerprint, str(dim)),
    )


def migrate(connection: sqlite3.Connection, found: int) -> None:
    """Migrate a store to the current version, one version at a time, each in a transaction of its own."""
    connection.create_function("checksum", -1, checksum, deterministic=True)
    for version in range(found, SCHEMA_VERSION):
        connection.executescript(f"BEGIN;{MIGRATIONS[version]}")
        if version + 1 == PATHS_SINCE:
            connection.executemany("INSERT INTO fields (key, kind, value, row) VALUES (?, ?, ?, ?)", _paths(connection))
        connection.execute("UPDATE store SET value = ? WHERE key = 'schema_version'", (str(version + 1),))
        connection.execute("COMMIT")


def shadow_fields(connection: sqlite3.Connection) -> None:
    """Let a connection find the nested values of an older store, without changing the store."""
    for statement in SHADOW.split(";\n"):  # not as a script: that would end the connection's transaction
        connection.execute(statement)
    connection.executemany("INSERT INTO paths (key, kind, value, row) VALUES (?, ?, ?, ?)", _paths(connection))


def _paths(connection: sqlite3.Connection) -> Iterator[tuple[str, str, SqlValue, int]]:
    """Yield the rows that `fields` lacks in an older store: paths with more than one key."""
    with_objects = "WHERE instr(substr(metadata, 2), '{')"
    nested = connection.execute(f"SELECT row, CAST(metadata AS BLOB) FROM documents {with_objects}")  # noqa: S608
    for row, text in nested:
        try:
            metadata = orjson.loads(text)
            found = fields_of(metadata)
        except (orjson.JSONDecodeError, AttributeError):  # damaged on disk: reading the document will say so
            continue
        yield from ((path, *kind, row) for path, kinds in found.items() if path not in metadata for kind in kinds)


def is_readable(version: str | None, *, migrated: bool) -> bool:
    """Return whether this service reads a store of a version. Without migration it also reads older ones."""
    if version is None or not version.isdecimal():
        return False
    return int(version) == SCHEMA_VERSION or (not migrated and int(version) in MIGRATIONS)
