"""Compares the keywords of a store with its texts. Knows SQL and terms; changes nothing."""

import sqlite3
import zlib

from service.documents.keywords.index import KeywordIndex
from service.documents.keywords.terms import document_terms

MODULUS = 1 << 64


def keywords_fault(connection: sqlite3.Connection, collection: int) -> str | None:
    """One sentence, if the keywords are not those of the texts; texts must be sound. Memory does not grow with either.

    Raises: sqlite3.DatabaseError: the disk gives no keywords.
    """
    if _digest_of_texts(connection, collection) != _digest_of_index(connection, collection):
        return "the keywords are not those of the texts (`crosslet index repair` makes them anew)"
    return None


def _digest_of_texts(connection: sqlite3.Connection, collection: int) -> int:
    query = "SELECT row, CAST(text AS BLOB) FROM documents WHERE collection = ?"
    total = 0
    for row, text in connection.execute(query, (collection,)):
        terms = document_terms(text.decode(errors="replace"))
        total += _digest(row, str(len(terms))) + sum(_digest(row, term) for term in terms)
    return total % MODULUS


def _digest_of_index(connection: sqlite3.Connection, collection: int) -> int:
    """Of every occurrence in the index, and of each document's length; their order does not matter to the sum."""
    table = KeywordIndex(connection, collection).table
    found = f"occurrences_of_{table}"
    connection.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{found} USING fts5vocab(main, {table}, instance)")
    total = sum(_digest(row, term) for row, term in connection.execute(f"SELECT doc, term FROM {found}"))  # noqa: S608
    for row, length in connection.execute(f"SELECT id, sz FROM {table}_docsize"):  # noqa: S608 - a number of ours
        total += _digest(row, str(_varint(length)))
    return total % MODULUS


def _varint(data: bytes) -> int:
    """A number as SQLite keeps it: seven bits a byte, the highest first."""
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
    return value


def _digest(row: int, term: str) -> int:
    """Spread over more than 32 bits, so that rows do not cancel out."""
    return zlib.crc32(term.encode(), row & 0xFFFFFFFF) * (2 * row + 1)
