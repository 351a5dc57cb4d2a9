"""Refuses a store that this service cannot use: another model, another schema, or impossible numbers.

Only reads. SQLite's own check finds damaged pages, not what another program put there: a trigger that deletes
documents, a CHECK that refuses them, a collation that merges ids, a number so large that no row can follow it.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import orjson

from service.documents.keywords.index import KeywordIndex
from service.documents.names import DEFAULT_NAME, NAME
from service.documents.store.connections import REVISION_SUFFIX
from service.documents.store.schema import DEFAULT, SCHEMA_VERSION, TABLES, facts, own_fields_of, recalibration_of
from service.errors import InvalidInput, StoreError

LARGEST_NUMBER = 2**53 - 1  # JSON readers round larger ones
LARGEST_RESTORED = 2**40  # some decades of writes; a restored store needs room to grow
LARGEST_DIM = 2**16
LONGEST_NAME = 80  # characters of a table's name in a message
SETTINGS = ("chunk", "has_passages")
KEYWORD_TABLE = re.compile(r"(keywords|vocabulary|trigrams)_[0-9]+(_[a-z]+)?")
NUMBERED = {"collections": "collection", "documents": "row", "passages": "passage"}  # tables and their numbers

SchemaEntry = tuple[str, str, str, str | None]  # a row of `sqlite_schema`: type, name, table, SQL


def check_facts(path: Path, stated: Mapping[str, str], *, fingerprint: str, dim: int, acknowledged: int) -> None:
    """Compare a store's facts with the loaded model. stated: the facts.  acknowledged: a revision that clients saw.

    Raises: StoreError: it has another model or space, is damaged, or is an older copy.
    """
    revision = stated.get("revision", "")
    if not revision.isdecimal():
        raise StoreError(f"document store {path} is damaged: its revision is {revision!r}")
    if int(revision) < acknowledged:
        raise StoreError(
            f"document store {path} has revision {revision}, but revision {acknowledged} was acknowledged: it "
            f"is damaged, or an older copy; to use it anyway, remove {path.with_suffix(REVISION_SUFFIX)}"
        )
    stored = stated.get("fingerprint", "unknown")
    if stored != fingerprint:
        raise StoreError(
            f"document store {path} holds vectors of model {stored[:12]}, but the service has "
            f"loaded model {fingerprint[:12]}: use that model and space (CROSSLET_MODEL, CROSSLET_SPACE) or another "
            "folder (CROSSLET_DATA), or re-embed the store for the loaded model with `crosslet index re-embed` "
            "(`docker compose run --rm re-embed`)"
        )
    if stated.get("dim") != str(dim):
        raise StoreError(f"document store {path} is damaged: its vectors have {stated.get('dim')!r} dims, not {dim}")


def check_schema(path: Path, connection: sqlite3.Connection) -> None:
    """Raises: StoreError: the store at `path` has another schema version, or not the tables that crosslet makes."""
    version = facts(connection).get("schema_version")
    if version != str(SCHEMA_VERSION):
        raise StoreError(
            f"document store {path} has schema {version}; this crosslet reads {SCHEMA_VERSION}: with the crosslet "
            "that wrote it, run `crosslet index export --out documents.jsonl`; then, with this one and an empty folder "
            "(CROSSLET_DATA), `crosslet index build documents.jsonl`"
        )
    if (fault := _schema_fault(connection)) is not None:
        raise StoreError(
            f"document store {path} was changed by another program: {fault}; use a backup from before (`crosslet index "
            "restore`), or undo the change"
        )


def check_numbers(path: Path, connection: sqlite3.Connection, *, largest: int = LARGEST_NUMBER) -> None:
    """Raises: StoreError: the store at `path` has a number that crosslet never writes. Reads no document."""
    if fault := next(_number_faults(connection, largest), None):
        raise StoreError(f"document store {path} is damaged, or was changed by another program: {fault}")


def _schema_fault(connection: sqlite3.Connection) -> str | None:
    """Return the first difference from the schema that crosslet makes; None: there is none."""
    stored = _schema(connection)
    fault = _difference(_without_keywords(stored), _without_keywords(_expected_schema([])))
    if fault is not None:  # `collections` may be anything: do not read it
        return fault
    numbers = [number for (number,) in connection.execute("SELECT collection FROM collections")]
    if len(numbers) > len(stored) or min(numbers, default=1) < 1:
        return "it has collections without keywords"
    return _difference(stored, _expected_schema(numbers))


def _schema(connection: sqlite3.Connection) -> list[SchemaEntry]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM main.sqlite_schema").fetchall()


def _without_keywords(schema: list[SchemaEntry]) -> list[SchemaEntry]:
    return [entry for entry in schema if not KEYWORD_TABLE.fullmatch(str(entry[2]))]


def _expected_schema(collections: list[int]) -> list[SchemaEntry]:
    """Return the schema that this release makes for collections of these numbers."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        empty.executescript(TABLES)
        for number in collections:
            KeywordIndex(empty, number).create()
        return _schema(empty)


def _difference(stored: list[SchemaEntry], expected: list[SchemaEntry]) -> str | None:
    added, missing = Counter(stored) - Counter(expected), Counter(expected) - Counter(stored)
    for kind, name, table, _ in added:
        label = f"{kind} {name!r}"[:LONGEST_NAME]
        if any(entry[:3] == (kind, name, table) for entry in missing):
            return f"its {label} is not as crosslet makes it"
        return f"it has the {label}, which is not crosslet's"
    for kind, name, *_ in missing:
        return f"it lacks the {kind} {name!r}"
    return None


def _number_faults(connection: sqlite3.Connection, largest: int) -> Iterator[str]:
    encoding, version = (
        connection.execute(f"PRAGMA main.{name}").fetchone()[0] for name in ("encoding", "user_version")
    )
    if encoding != "UTF-8" or version:
        yield f"its texts are in {encoding} and its user version is {version}; crosslet writes UTF-8 and no version"
    stated = facts(connection)
    for name, least, most in (("revision", 0, largest), ("dim", 1, LARGEST_DIM)):
        text = stated.get(name, "")
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
            yield f"its {name} is {stated.get(name)!r}; the limits are {least} and {most}"
    for table, column in NUMBERED.items():
        for which, order in (("smallest", "ASC"), ("largest", "DESC")):
            query = f"SELECT {column} FROM {table} ORDER BY {column} {order} LIMIT 1"  # noqa: S608 - constants
            for (number,) in connection.execute(query):
                if not 1 <= number <= largest:
                    yield f"the {which} {column} of its {table} is {number}; the limits are 1 and {largest}"
    for name, number in connection.execute("SELECT name, seq FROM sqlite_sequence"):
        if name not in NUMBERED or not isinstance(number, int) or not 0 <= number <= largest:
            yield f"the last number of its {name!r} is {number!r}; the limit is {largest}"
    yield from _collection_faults(connection, int(stated["revision"]), largest)


def _collection_faults(connection: sqlite3.Connection, revision: int, largest: int) -> Iterator[str]:
    collections = connection.execute("SELECT collection, name, revision, documents, settings FROM collections")
    names = {}
    for number, name, last_change, documents, settings in collections.fetchall():
        names[number] = name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            yield f"collection {number} has no name that a collection may have"
        if not isinstance(last_change, int) or not 0 <= last_change <= revision:
            yield f"collection {number} has revision {last_change!r}; the store has {revision}"
        if not isinstance(documents, int) or not 0 <= documents <= largest:
            yield f"collection {number} has a count of {documents!r} documents"
        if not _is_settings(settings):
            yield f"collection {number} has settings that crosslet never writes"
    if names.get(DEFAULT) != DEFAULT_NAME:
        yield f"its collection {DEFAULT} is not {DEFAULT_NAME}"


def _is_settings(text: object) -> bool:
    try:
        settings = orjson.loads(text) if isinstance(text, str) else None
        if not isinstance(settings, dict) or not all(isinstance(settings.get(name, False), bool) for name in SETTINGS):
            return False
        template, fields = settings.get("text", ""), settings.get("fields") or []
        if not isinstance(template, str) or not isinstance(fields, list) or {*map(type, fields)} - {str}:
            return False
        own_fields_of(str(text))
        recalibration_of(str(text))
    except (ValueError, InvalidInput):
        return False
    return True
