"""The tables of the document store, and how they are created and renewed.

collections  named sets of documents, each with the revision of its last change, its count and its settings (JSON):
             `chunk`, whether documents are split into passages where a client does not say; `has_passages`, whether a
             passage may have another number than its document's row; `text` and `fields`, of documents with their own
             fields (`service/documents/own_fields.py`); `confidence` (`recalibration.py`). `default` is the first
documents    id, text, metadata (JSON), revision of its last change, checksum; whether the model read only the beginning
             of a passage (NULL: unknown)
passages     vectors (little-endian float32) of the parts of documents, in order; a short document has one passage
fields       a row for each path in the metadata and each scalar at its end, so that a filter is an index look-up
keywords_N   terms of the documents of collection N, with vocabulary_N and trigrams_N (`service/documents/keywords`)
store        schema version, fingerprint of the model that made the vectors, dim, revision, rules of the keywords and
             of the fields, snapshots of the index
"""

import sqlite3
from dataclasses import asdict

import orjson

from service.documents.filters import FIELD_RULES, comparable, replace_fields
from service.documents.keywords.index import KeywordIndex
from service.documents.keywords.terms import RULES
from service.documents.names import DEFAULT_NAME
from service.documents.own_fields import OwnFields
from service.documents.recalibration import RECALIBRATION, Recalibration

SCHEMA_VERSION = 8
DEFAULT = 1  # number of the collection that is always there
# `schema_check` compares a store with these statements, letter by letter: a change of one needs a new version.
FIELDS = """
CREATE TABLE fields (
    collection INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY (collection, key, kind, value, row)
) WITHOUT ROWID;
CREATE INDEX fields_of_row ON fields (row);
"""
TABLES = f"""
CREATE TABLE store (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    collection INTEGER NOT NULL,
    id TEXT NOT NULL,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,
    revision INTEGER NOT NULL,
    text_checksum INTEGER NOT NULL,
    is_truncated INTEGER,
    UNIQUE (collection, id)
);
CREATE INDEX documents_by_revision ON documents (collection, revision);
CREATE INDEX documents_truncated ON documents (collection, is_truncated) WHERE is_truncated = 1;
{FIELDS}CREATE TABLE collections (
    collection INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    documents INTEGER NOT NULL,
    settings TEXT NOT NULL DEFAULT '{{}}'
);
CREATE TABLE passages (
    passage INTEGER PRIMARY KEY AUTOINCREMENT,
    row INTEGER NOT NULL,
    collection INTEGER NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    vector BLOB NOT NULL,
    vector_checksum INTEGER NOT NULL
);
CREATE INDEX passages_of_row ON passages (row);
CREATE INDEX passages_of_collection ON passages (collection);
INSERT INTO collections (collection, name, revision, documents) VALUES ({DEFAULT}, '{DEFAULT_NAME}', 0, 0);
"""  # noqa: S608 - constants


def facts(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the contents of the table `store`. A value that is no text was not written by any release."""
    return dict(connection.execute("SELECT key, value FROM store WHERE typeof(value) = 'text'").fetchall())


def is_blank(connection: sqlite3.Connection) -> bool:
    """Return whether a file has no tables yet."""
    return not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]


def create_or_renew(connection: sqlite3.Connection, *, fingerprint: str, dim: int, chunks: bool = True) -> None:
    """Create the tables of an empty file; in a store, rebuild what other rules made, and adopt the model if empty."""
    if is_blank(connection):
        _create(connection, fingerprint=fingerprint, dim=dim, chunks=chunks)
        return
    stated = facts(connection)
    if stated.get("fingerprint") != fingerprint:  # a store without vectors may change its model
        connection.execute(
            "UPDATE store SET value = CASE key WHEN 'fingerprint' THEN ? ELSE ? END "
            "WHERE key IN ('fingerprint', 'dim') AND NOT EXISTS (SELECT * FROM documents)",
            (fingerprint, str(dim)),
        )
    if stated.get("keywords") != RULES:
        connection.execute("BEGIN IMMEDIATE")
        for (number,) in connection.execute("SELECT collection FROM collections").fetchall():
            KeywordIndex(connection, number).fill()
        connection.execute("INSERT OR REPLACE INTO store VALUES ('keywords', ?)", (RULES,))
        connection.execute("COMMIT")
    if stated.get("fields") != FIELD_RULES:
        _renew_fields(connection)


def _create(connection: sqlite3.Connection, *, fingerprint: str, dim: int, chunks: bool) -> None:
    stated = {"schema_version": SCHEMA_VERSION, "fingerprint": fingerprint, "dim": dim, "revision": 0}
    stated |= {"keywords": RULES, "fields": FIELD_RULES}
    rows = ", ".join(f"('{key}', '{value}')" for key, value in stated.items())
    connection.executescript(f"BEGIN;{TABLES}INSERT INTO store VALUES {rows};")  # noqa: S608
    connection.execute("UPDATE collections SET settings = ?", (settings_of(chunks=chunks),))
    KeywordIndex(connection, DEFAULT).create()
    connection.execute("COMMIT")


def settings_of(*, chunks: bool, own_fields: OwnFields | None = None) -> str:
    """Return the settings of a new collection."""
    return configured(orjson.dumps({"chunk": chunks}).decode(), own_fields)


def configured(settings: str, own_fields: OwnFields | None) -> str:
    """Return settings with other ones for documents with their own fields."""
    others = {name: value for name, value in orjson.loads(settings).items() if name not in {"text", "fields"}}
    own = {} if own_fields is None else {"text": own_fields.text, "fields": own_fields.fields}
    return orjson.dumps(others | own).decode()


def recalibrated(settings: str, recalibration: Recalibration | None) -> str:
    """Return settings with another recalibration of the confidence."""
    others = {name: value for name, value in orjson.loads(settings).items() if name != "confidence"}
    own = {} if recalibration is None else {"confidence": asdict(recalibration)}
    return orjson.dumps(others | own).decode()


def recalibration_of(settings: str) -> Recalibration | None:
    """Return what settings say of the confidence. Raises: ValueError: no release wrote that."""
    return RECALIBRATION.validate_python(orjson.loads(settings).get("confidence"))


def own_fields_of(settings: str) -> OwnFields | None:
    """Return what settings say of documents with their own fields. Raises: InvalidInput: no release wrote that."""
    stored = orjson.loads(settings)
    return OwnFields.parsed(stored["text"], stored.get("fields")) if "text" in stored else None


def _renew_fields(connection: sqlite3.Connection) -> None:
    """Rebuild `fields` for the documents whose metadata other rules may have compared otherwise."""
    connection.execute("BEGIN IMMEDIATE")
    stored = connection.execute("SELECT row, collection, CAST(metadata AS BLOB) FROM documents")
    for row, collection, text in stored:
        metadata = loaded(text)
        if metadata is not None and has_other_spellings(text):
            replace_fields(connection, collection, row, metadata)
    connection.execute("INSERT OR REPLACE INTO store VALUES ('fields', ?)", (FIELD_RULES,))
    connection.execute("COMMIT")


def has_other_spellings(metadata: bytes) -> bool:
    """Return whether a key or a string in a document's JSON is not spelled as filters compare it."""
    text = metadata.decode(errors="replace")
    return comparable(text) != text


def loaded(metadata: bytes) -> dict[str, object] | None:
    """Return a document's metadata; None: they are damaged on disk, which reading the document will report."""
    try:
        value = orjson.loads(metadata)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
