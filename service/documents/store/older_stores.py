"""Shows an older store, which stays as it is, as one of today's to one connection. Knows SQL; opens no file."""

import sqlite3

from service.documents.store.collection_name import DEFAULT_NAME
from service.documents.store.schema import CHECKSUMS_SINCE, DEFAULT, KEYWORDS_SINCE, PATHS_SINCE, paths

PATHS = """
CREATE TEMP TABLE paths (
    key TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY (key, kind, value, row)
) WITHOUT ROWID
"""


def view_as_todays(connection: sqlite3.Connection, version: int, *, with_paths: bool) -> None:
    """Put views of today's tables before those of an older version. Keywords there are none.

    with_paths: filters find nested values, too; otherwise `fields` is what the store has.
    """
    if version >= KEYWORDS_SINCE:
        return
    adds_paths = with_paths and version < PATHS_SINCE
    if adds_paths:
        connection.execute(PATHS)
        connection.executemany("INSERT INTO paths (key, kind, value, row) VALUES (?, ?, ?, ?)", paths(connection))
    for name, query in _views(has_checksums=version >= CHECKSUMS_SINCE, adds_paths=adds_paths).items():
        connection.execute(f"CREATE TEMP VIEW {name} AS {query}")


def _views(*, has_checksums: bool, adds_paths: bool) -> dict[str, str]:
    of_text, of_vector = ("text_checksum", "vector_checksum") if has_checksums else ("NULL", "NULL")
    fields = f"SELECT {DEFAULT} AS collection, key, kind, value, row FROM"
    return {
        "documents": f"SELECT row, {DEFAULT} AS collection, id, text, metadata, revision, {of_text} AS text_checksum, "  # noqa: S608
        "NULL AS is_truncated FROM main.documents",
        "passages": f"SELECT row AS passage, row, {DEFAULT} AS collection, 0 AS start, length(text) AS stop, vector, "  # noqa: S608
        f"{of_vector} AS vector_checksum FROM main.documents",
        "fields": f"{fields} main.fields" + (f" UNION ALL {fields} paths" if adds_paths else ""),
        "collections": f"SELECT {DEFAULT} AS collection, '{DEFAULT_NAME}' AS name, CAST(value AS INTEGER) AS revision, "  # noqa: S608
        "(SELECT count(*) FROM main.documents) AS documents, '{}' AS settings FROM main.store WHERE key = 'revision'",
    }
