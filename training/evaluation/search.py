"""Reads a set of cross-lingual search: documents and queries in many languages; one document answers a query.

    documents.jsonl   id, language, text
    queries.jsonl     id, language, kind, split (dev or test), text, document (the answer's id; null: no answer)

Each plain or .gz.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from training.errors import EvaluationError
from training.evaluation.lines import check_unique, find_file, read_json_lines

PARTS = ("dev", "test")
BUNDLED = Path(__file__).parent / "bundled"  # sets of searches, written for this project


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


def read_search(folder: Path) -> SearchSet | None:
    """Read the set in a folder; None if there is none.

    Raises: EvaluationError: a line is malformed, an id is repeated, or a query's document does not exist.
    """
    paths = [find_file(folder / name) for name in ("documents.jsonl", "queries.jsonl")]
    if None in paths:
        return None
    documents_path, queries_path = (path for path in paths if path)
    documents = read_json_lines(documents_path, ("id", "language", "text"))
    rows = read_json_lines(queries_path, ("id", "language", "kind", "split", "text"))
    check_unique(documents_path, [row["id"] for row in documents], "id")
    check_unique(queries_path, [row["id"] for row in rows], "id")
    index = {row["id"]: number for number, row in enumerate(documents)}
    for row in rows:
        if row["split"] not in PARTS:
            raise EvaluationError(f"{queries_path}: query {row['id']} is of no split of {', '.join(PARTS)}")
        document = row.get("document")
        if not (document is None or (isinstance(document, str) and document in index)):
            raise EvaluationError(f"{queries_path}: query {row['id']} names a document that {documents_path} lacks")
    queries = [
        Query(row["text"], row["language"], row["kind"], row["split"] == "dev", index.get(row.get("document") or ""))
        for row in rows
    ]
    return SearchSet([row["text"] for row in documents], queries)
