"""Reads a set of cross-lingual search: documents and queries in many languages; one document answers a query.

    documents.jsonl   id, language, text
    queries.jsonl     id, language, kind, split (dev or test), text, document (the answer's id; null: no answer)

Each plain or .gz.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from training.errors import EvaluationError
from training.evaluation.lines import check_unique, find_file, read_json_lines

PARTS = ("dev", "test")
BUNDLED = Path(__file__).parent / "bundled"  # sets of searches, written for this project
Row = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """A query. `document`: the index of its answer; None: no document answers it."""

    text: str
    language: str
    kind: str
    is_dev: bool
    document: int | None


@dataclass(frozen=True)
class SearchSet:
    """Documents, and queries over them."""

    documents: list[str]
    queries: list[Query]


def read_rows_of(folder: Path, queries_name: str) -> tuple[list[Row], list[Row]] | None:
    """Read the rows of documents.jsonl and of the file of queries; None if either is missing.

    Raises: EvaluationError: a line is malformed, an id is repeated, or a query is of no split.
    """
    documents_path, queries_path = find_file(folder / "documents.jsonl"), find_file(folder / queries_name)
    if documents_path is None or queries_path is None:
        return None
    documents = read_json_lines(documents_path, ("id", "language", "text"))
    queries = read_json_lines(queries_path, ("id", "language", "kind", "split", "text"))
    for path, rows in ((documents_path, documents), (queries_path, queries)):
        check_unique(path, [row["id"] for row in rows], "id")
    for row in queries:
        if row["split"] not in PARTS:
            raise EvaluationError(f"{queries_path}: query {row['id']} is of no split of {', '.join(PARTS)}")
    return documents, queries


def read_search(folder: Path) -> SearchSet | None:
    """Read the set in a folder; None if there is none.

    Raises: EvaluationError: a line is malformed, an id is repeated, or a query's document does not exist.
    """
    if (rows_of := read_rows_of(folder, "queries.jsonl")) is None:
        return None
    documents, rows = rows_of
    index = {row["id"]: number for number, row in enumerate(documents)}
    for row in rows:
        document = row.get("document")
        if not (document is None or (isinstance(document, str) and document in index)):
            raise EvaluationError(f"{folder}: query {row['id']} names a document that documents.jsonl lacks")
    queries = [
        Query(row["text"], row["language"], row["kind"], row["split"] == "dev", index.get(row.get("document") or ""))
        for row in rows
    ]
    return SearchSet([row["text"] for row in documents], queries)


@cache
def bundled_search() -> SearchSet:
    """Read the set that comes with the code."""
    search_set = read_search(BUNDLED / "search")
    assert search_set is not None  # noqa: S101 - bundled
    return search_set
