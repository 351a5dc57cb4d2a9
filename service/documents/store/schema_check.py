"""Refuses a store that this service cannot use: another model or schema, tables, triggers or numbers of others.

Changes nothing. SQLite's own check knows of sound pages only. A trigger deletes documents, a CHECK refuses them, a
collation merges ids, and after a huge number no row can be added.
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
from service.documents.store.schema import DEFAULT, SCHEMA_VERSION, TABLES, facts
from service.errors import StoreError

LARGEST_NUMBER = 2**53 - 1  # beyond, JSON's readers round
LARGEST_RESTORED = 2**40  # some decades of writes; a restored store needs room to grow
LARGEST_DIM = 2**16
LONGEST_NAME = 80  # in a message
SETTINGS = ("chunk", "has_passages")
OF_KEYWORDS = re.compile(r"keywords_[0-9]+(_[a-z]+)?")
NUMBERED = {"collections": "collection", "documents": "row", "passages": "passage"}

Entry = tuple[str, str, str, str | None]  # of `sqlite_schema`: type, name, table, SQL; an index of a key has none


def check_facts(path: Path, found: Mapping[str, str], *, fingerprint: str, dim: int, answered: int) -> None:
    """Check what a store says of itself. found: its facts.  answered: the last acknowledged revision.

    Raises: StoreError: it has another model or space, is damaged, or is an older copy.
    """
    revision = found.get("revision", "")
    if not revision.isdecimal():
        raise StoreError(f"document store {path} is damaged: its revision is {revision!r}")
    if int(revision) < answered:
        raise StoreError(
            f"document store {path} has revision {revision}, but revision {answered} was acknowledged: it "
            f"is damaged, or an older copy; to use it anyway, remove {path.with_suffix(REVISION_SUFFIX)}"
        )
    stored = found.get("fingerprint", "unknown")
    if stored != fingerprint:
        raise StoreError(
            f"document store {path} holds vectors of model {stored[:12]}, but the service has "
            f"loaded model {fingerprint[:12]}: use that model and space (CROSSLET_MODEL, CROSSLET_SPACE) or another "
            "folder (CROSSLET_DATA), or re-embed the store for the loaded model with `crosslet index re-embed` "
            "(`docker compose run --rm re-embed`)"
        )
    if found.get("dim") != str(dim):
        raise StoreError(f"document store {path} is damaged: its vectors have {found.get('dim')!r} dims, not {dim}")


def check_schema(path: Path, connection: sqlite3.Connection) -> None:
    """Raises: StoreError: the store at `path` has another schema, or other tables than crosslet makes."""
    version = facts(connection).get("schema_version")
    if version != str(SCHEMA_VERSION):
        raise StoreError(
            f"document store {path} has schema {version}; this crosslet reads {SCHEMA_VERSION}: with the crosslet "
            "that wrote it, run `crosslet index export --out documents.jsonl`; then, with this one and an empty folder "
            "(CROSSLET_DATA), `crosslet index build documents.jsonl`"
        )
    if (fault := schema_fault(connection)) is not None:
        raise StoreError(
            f"document store {path} was changed by another program: {fault}; use a backup from before (`crosslet index "
            "restore`), or undo the change"
        )


def check_numbers(path: Path, connection: sqlite3.Connection, *, largest: int = LARGEST_NUMBER) -> None:
    """Raises: StoreError: the store at `path` has a number that crosslet never writes."""
    if (fault := numbers_fault(connection, largest=largest)) is not None:
        raise StoreError(f"document store {path} is damaged, or was changed by another program: {fault}")


def schema_fault(connection: sqlite3.Connection) -> str | None:
    """What a store's tables have that crosslet's lack, or the other way round; None: they are the same."""
    found = _entries(connection)
    fault = _difference(_without_keywords(found), _without_keywords(_made([])))
    if fault is not None:  # `collections` may be anything: do not read it
        return fault
    numbers = [number for (number,) in connection.execute("SELECT collection FROM collections")]
    if len(numbers) > len(found) or min(numbers, default=1) < 1:
        return "it has collections without keywords"
    return _difference(found, _made(numbers))


def numbers_fault(connection: sqlite3.Connection, *, largest: int = LARGEST_NUMBER) -> str | None:
    """The first number of a store that crosslet never writes; None: there is none. Reads no document."""
    return next(_faults(connection, largest), None)


def _faults(connection: sqlite3.Connection, largest: int) -> Iterator[str]:
    encoding, version = (
        connection.execute(f"PRAGMA main.{name}").fetchone()[0] for name in ("encoding", "user_version")
    )
    if encoding != "UTF-8" or version:
        yield f"its texts are in {encoding} and its user version is {version}; they are in UTF-8, and there is none"
    said = facts(connection)
    for name, least, most in (("revision", 0, largest), ("dim", 1, LARGEST_DIM)):
        text = said.get(name, "")
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
            yield f"its {name} is {said.get(name)!r}; the limits are {least} and {most}"
            return
    for table, column in NUMBERED.items():
        for which, order in (("smallest", "ASC"), ("largest", "DESC")):
            query = f"SELECT {column} FROM {table} ORDER BY {column} {order} LIMIT 1"  # noqa: S608 - constants
            for (number,) in connection.execute(query):
                if not 1 <= number <= largest:
                    yield f"the {which} {column} of its {table} is {number}; the limits are 1 and {largest}"
    for name, number in connection.execute("SELECT name, seq FROM sqlite_sequence"):
        if name not in NUMBERED or not isinstance(number, int) or not 0 <= number <= largest:
            yield f"the last number of its {name!r} is {number!r}; the limit is {largest}"
    yield from _faults_of_collections(connection, int(said["revision"]), largest)


def _faults_of_collections(connection: sqlite3.Connection, revision: int, largest: int) -> Iterator[str]:
    collections = connection.execute("SELECT collection, name, revision, documents, settings FROM collections")
    names = {}
    for number, name, last_change, documents, settings in collections.fetchall():
        names[number] = name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            yield f"collection {number} has no name that a collection may have"
        if not isinstance(last_change, int) or not 0 <= last_change <= revision:
            yield f"collection {number} has revision {last_change!r}; the store has {revision}"
        if not isinstance(documents, int) or not 0 <= documents <= largest:
            yield f"collection {number} says it has {documents!r} documents"
        if not _are_settings(settings):
            yield f"collection {number} has settings that are none"
    if names.get(DEFAULT) != DEFAULT_NAME:
        yield f"its collection {DEFAULT} is not {DEFAULT_NAME}"


def _are_settings(text: object) -> bool:
    try:
        settings = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return False
    return isinstance(settings, dict) and all(isinstance(settings.get(name, False), bool) for name in SETTINGS)


def _entries(connection: sqlite3.Connection) -> list[Entry]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM main.sqlite_schema").fetchall()


def _without_keywords(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if not OF_KEYWORDS.fullmatch(str(entry[2]))]


def _made(collections: list[int]) -> list[Entry]:
    """What this release makes for collections of these numbers."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        empty.executescript(TABLES)
        for number in collections:
            KeywordIndex(empty, number).create()
        return _entries(empty)


def _difference(found: list[Entry], made: list[Entry]) -> str | None:
    more, fewer = Counter(found) - Counter(made), Counter(made) - Counter(found)
    for kind, name, table, _ in more:
        if any(entry[:3] == (kind, name, table) for entry in fewer):
            return f"its {_named(kind, name)} is not as crosslet makes it"
        return f"it has the {_named(kind, name)}, which is not crosslet's"
    for kind, name, *_ in fewer:
        return f"it lacks the {_named(kind, name)}"
    return None


def _named(kind: str, name: str) -> str:
    return f"{kind} {name!r}"[:LONGEST_NAME]
