"""The named collections of a store: lists, makes and drops them. Knows tables; reads no document."""

import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from service.documents.keywords.index import KeywordIndex
from service.documents.names import check_count, check_name
from service.documents.own_fields import OwnFields
from service.documents.recalibration import Recalibration
from service.documents.store.connections import StoreConnections, commit
from service.documents.store.schema import DEFAULT, configured, recalibrated, settings_of
from service.errors import NotFound, StartError

TABLES = ("fields", "passages", "documents", "collections")  # with a column `collection`


@dataclass(frozen=True)
class CollectionRow:
    """A row of the table of collections. number: never given twice in a store.  revision: of its last change."""

    number: int
    name: str
    documents: int
    revision: int


class Catalog:
    """The collections of one open store."""

    def __init__(self, store: StoreConnections) -> None:
        self._store = store

    def listed(self) -> list[CollectionRow]:
        """Return every collection, by age: the default one first."""
        with self._store.reader() as connection:
            return listed(connection)

    def number_of(self, name: str) -> int | None:
        """Return the number of a collection; None: there is none of this name."""
        return {row.name: row.number for row in self.listed()}.get(name)

    def check_new(self, name: str, *, most: int) -> None:
        """Refuse what `create` would.

        Raises: InvalidInput: the name is malformed.  StorageFull: there are `most` collections, or more.
        """
        check_name(name)
        check_count(name, len(self.listed()), most=most)

    def create(self, name: str, *, most: int, chunks: bool = True, own_fields: OwnFields | None = None) -> int:
        """Make an empty collection, durably. Return its number.

        Args: chunks: whether its documents are split into passages where nothing else is said.
              own_fields: what it takes of documents with their own fields; None: it takes id, text and metadata.

        Raises: as `check_new`.
        """
        self.check_new(name, most=most)
        writer = self._store.writer
        with self._store.change() as revision:
            insert = "INSERT INTO collections (name, revision, documents, settings) VALUES (?, ?, 0, ?)"
            settings = settings_of(chunks=chunks, own_fields=own_fields)
            number = writer.execute(insert, (name, revision, settings)).lastrowid or 0
            KeywordIndex(writer, number).create()
            commit(writer, revision)
        return number

    def configure(self, number: int, own_fields: OwnFields | None) -> None:
        """Set what a collection takes of documents with their own fields, durably; its documents stay as they are."""
        self._change_settings(number, partial(configured, own_fields=own_fields))

    def recalibrate(self, number: int, recalibration: Recalibration | None) -> None:
        """Set how a collection's confidence is recalibrated, durably."""
        self._change_settings(number, partial(recalibrated, recalibration=recalibration))

    def _change_settings(self, number: int, change: Callable[[str], str]) -> None:
        writer = self._store.writer
        with self._store.change() as revision:
            query = "SELECT settings FROM collections WHERE collection = ?"
            settings = writer.execute(query, (number,)).fetchone()
            if settings is None:
                raise NotFound("this collection was dropped meanwhile")
            writer.execute("UPDATE collections SET settings = ? WHERE collection = ?", (change(*settings), number))
            commit(writer, revision)

    def drop(self, number: int) -> None:
        """Remove a collection with all that it holds, in one transaction: a crash leaves all of it, or nothing.

        Raises: StorageFull: nothing was removed.
        """
        assert number != DEFAULT  # noqa: S101 - routes and commands refuse it
        writer = self._store.writer
        with self._store.change() as revision:
            for table in TABLES:
                writer.execute(f"DELETE FROM {table} WHERE collection = ?", (number,))  # noqa: S608 - constants
            KeywordIndex(writer, number).drop()
            writer.execute("DELETE FROM store WHERE key = ?", (snapshots_key(number),))
            commit(writer, revision)


def listed(connection: sqlite3.Connection) -> list[CollectionRow]:
    """Return every collection that a connection sees, by age."""
    query = "SELECT collection, name, documents, revision FROM collections ORDER BY collection"
    return [CollectionRow(*stored) for stored in connection.execute(query)]


def unknown(name: str, names: Collection[str], path: Path) -> StartError:
    """Return the error for a command on a collection that the store at `path` lacks. names: those it has."""
    return StartError(f"document store {path} has no collection {name}; it has {', '.join(names)}")


def snapshots_key(number: int) -> str:
    """Return where the store keeps the ids of a collection's index snapshots."""
    return "snapshots" if number == DEFAULT else f"snapshots_{number}"
