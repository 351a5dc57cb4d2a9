"""Tells whether storing a document would change anything."""

from collections.abc import Mapping
from typing import Any

import orjson

from service.documents.store.document import Document


def is_same(document: Document, stored: Document) -> bool:
    """Return whether putting the document would change nothing. Compares JSON, since 1 == True in Python."""
    is_text = document.text == stored.text and document.passages == stored.passages
    return is_text and _dump(document.metadata) == _dump(stored.metadata)


def _dump(metadata: Mapping[str, Any]) -> bytes:
    return orjson.dumps(metadata, option=orjson.OPT_SORT_KEYS)
