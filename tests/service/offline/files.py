"""Files of documents and a store to load them into, for the tests of the bulk commands."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from service.documents.readers.records import Record
from service.documents.readers.sources import format_of, open_source
from tests.artifacts import TEXTS

DOCUMENTS = [
    {"id": f"{number}", "text": text, "metadata": {"lang": "en" if number % 2 else "de", "n": number}}
    for number, text in enumerate(TEXTS)
]


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any] | str]) -> Path:
    """Objects, or lines as they are."""
    lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read_jsonl(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def records_of(path: Path, format_: str | None = None) -> list[Record]:
    with open_source(path, format_of(path, format_)) as source:
        return list(source.records(None))
