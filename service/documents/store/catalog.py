"""The named collections of a store: lists, makes and drops them. Knows tables; reads no document."""

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from service.documents.keywords.index import KeywordIndex
from service.documents.names import check_name
from service.documents.store.connections import StoreConnections
from service.documents.store.schema import DEFAULT, settings_of
from service.errors import NotFound, StartError, StorageFull

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

    def __init__(self, connections: StoreConnections) -> None:
        self._connections = connections

    def listed(self) -> list[CollectionRow]:
        """Every collection, by age: the default one first."""
        return listed(self._connections.reader())

    def number_of(self, name: str) -> int | None:
        """The number of a collection; None: there is none of this name."""
        query = "SELECT collection FROM collections WHERE name = ?"
        found = self._connections.reader().execute(query, (name,)).fetchone()
        return None if found is None else int(found[0])

    def check_new(self, name: str, *, most: int) -> None:
        """Refuse what `create` would.

        Raises: InvalidInput: the name is malformed.  StorageFull: there are `most` collections, or more.
        """
        check_name(name)
        count = len(self.listed())
        if count >= most:
            raise StorageFull(
                f"collection {name} cannot be made: there are {count} collections; the limit is {most} "
                "(CROSSLET_MAX_COLLECTIONS): drop one first"
            )

    def create(self, name: str, *, most: int, chunks: bool = True) -> int:
        """Make an empty collection, durably. Return its number.

        chunks: whether its documents are split into passages where nothing else is said.

        Raises: as `check_new`.
        """
        self.check_new(name, most=most)
        with self._connections.change() as revision:
            insert = (
                "INSERT INTO collections (name, revision, documents, settings) VALUES (?, ?, 0, ?) RETURNING collection"
            )
            settings = settings_of(chunks=chunks)
            (number,) = self._connections.writer.execute(insert, (name, revision, settings)).fetchone()
            KeywordIndex(self._connections.writer, number).create()
            self._commit(revision)
        return int(number)

    def drop(self, number: int) -> None:
        """Remove a collection with all that it holds, in one transaction: a crash leaves all of it, or nothing.

        Raises: StorageFull: nothing was removed.
        """
        assert number != DEFAULT  # noqa: S101 - routes and commands refuse it
        with self._connections.change() as revision:
            for table in TABLES:
                self._connections.writer.execute(f"DELETE FROM {table} WHERE collection = ?", (number,))  # noqa: S608
            self._connections.writer.execute(f"DROP TABLE {KeywordIndex(self._connections.writer, number).table}")
            self._connections.writer.execute("DELETE FROM store WHERE key = ?", (snapshots_key(number),))
            self._commit(revision)

    def _commit(self, revision: int) -> None:
        self._connections.writer.execute("UPDATE store SET value = ? WHERE key = 'revision'", (str(revision),))
        self._connections.writer.execute("COMMIT")


def listed(connection: sqlite3.Connection) -> list[CollectionRow]:
    """Every collection that a connection sees, by age."""
    query = "SELECT collection, name, documents, revision FROM collections ORDER BY collection"
    return [CollectionRow(*found) for found in connection.execute(query)]


def unknown(name: str, names: Collection[str], path: Path) -> StartError:
    """The error for a command on a collection that the store at `path` lacks. names: those it has."""
    return StartError(f"document store {path} has no collection {name}; it has {', '.join(names)}")


def was_dropped() -> NotFound:
    """The error for a change of a collection that is no more, or a search in it."""
    return NotFound("this collection was dropped meanwhile")


def snapshots_key(number: int) -> str:
    """Where the store keeps the ids of a collection's index snapshots."""
    return "snapshots" if number == DEFAULT else f"snapshots_{number}"
