"""Converts documents to Milvus rows and back, within Milvus' limits. A row is a passage of a document.

A document's first row, its head, has number 0, text and metadata; it is written last, so that it makes a put visible.
The others count while they have its revision; marks never do. Rows are found by digests: no expression quotes a user's
text.

The head has the document's terms as a sparse vector. Each term has a number, and there the share of its weight in BM25
that its occurrences reach, in a document of this length, if the mean is MEAN_LENGTH. So an inner product with the
rarity of terms is nearly BM25. Number 0 has the length, from which the occurrences are told again: a search scores them
by today's mean.
"""

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import orjson

from service.documents.document import Document, StoredDocument, Vectors
from service.documents.keywords.index import K1, B
from service.documents.keywords.terms import document_terms
from service.documents.milvus.filters import digest_of, searchable
from service.errors import InvalidInput

MilvusRow = dict[str, Any]  # pymilvus' type of a row

PLACE = ["row", "head", "number", "revision"]  # the fields that say what a row is of
FIELDS = [*PLACE, "id", "text", "metadata", "passages", "arrival"]  # the fields of a document, in its head
MAX_ID_BYTES = 4 * 512  # an id has at most 512 characters
MAX_TEXT_BYTES = 65_535  # Milvus' largest VARCHAR
MAX_JSON_BYTES = 65_536
MAX_TOKENS = 4_096  # Milvus' largest ARRAY
DIGEST_CHARS = 33
MARK = 2**40  # the number of a row that is a mark
MAX_ROWS = 16_384  # Milvus' maximum for one answer

MEAN_LENGTH = 30  # terms; of what is stored
LENGTH = 0
NUMBERS = 2**31 - 1  # from 1 on; of 100,000 terms two or three share one
CACHED_NUMBERS = 16_384
LEAST_REST = 1e-6  # a float32 cannot tell smaller differences from 1

Sparse = dict[int, float]
NO_TERMS: Sparse = {LENGTH: 1.0}  # Milvus refuses an empty one

T = TypeVar("T")


def to_rows(
    document: Document, vectors_PD: Vectors, *, position: int, arrival: int, revision: int, has_terms: bool
) -> tuple[MilvusRow, list[MilvusRow]]:
    """Return a document's head and the rows of its other passages. position: in the request, for error messages.

    has_terms: whether rows have sparse vectors of terms.

    Raises: InvalidInput: it exceeds Milvus' limits.
    """
    derived = searchable(document.metadata)
    place = f"documents[{position}]"
    _check(len(document.id.encode()), MAX_ID_BYTES, f"{place}.id takes", "bytes")
    _check(len(document.text.encode()), MAX_TEXT_BYTES, f"{place}.text takes", "bytes")
    _check(len(orjson.dumps(document.metadata)), MAX_JSON_BYTES, f"{place}.metadata takes", "bytes")
    _check(len(derived.tokens), MAX_TOKENS, f"{place}.metadata has", "keys and values to filter on")
    _check(len(orjson.dumps(derived.bounds)), MAX_JSON_BYTES, f"{place}.metadata has too many keys: they take", "bytes")
    head = head_of(document.id)
    rows = [
        {
            "row": head if number == 0 else digest_of(head, str(number), str(revision)),
            "head": head,
            "number": number,
            "id": document.id,
            "text": "",
            "metadata": {},
            "passages": {},
            "truncated": int(document.is_truncated is True),
            "tokens": derived.tokens,
            "bounds": derived.bounds,
            "arrival": arrival,
            "revision": revision,
            "vector": np.asarray(vector_D, np.float32),
        }
        for number, vector_D in enumerate(vectors_PD)
    ]
    spans = {"spans": [list(span) for span in document.passages]} if document.passages else {}
    head_row = rows[0] | {"text": document.text, "metadata": document.metadata, "passages": spans}
    if not has_terms:
        return head_row, rows[1:]
    return head_row | {"terms": to_sparse(document.text)}, [row | {"terms": NO_TERMS} for row in rows[1:]]


def to_mark(head: str, dim: int, now_us: int, *, has_terms: bool) -> MilvusRow:
    """Return the row that says that a service changes a document: of no revision, so it counts as no passage."""
    nothing, vector_1D = Document("", "", {}), np.zeros((1, dim), np.float32)
    mark, _ = to_rows(nothing, vector_1D, position=0, arrival=now_us, revision=0, has_terms=has_terms)
    return mark | {"row": digest_of(head, secrets.token_hex(8)), "head": head, "number": MARK}


def to_document(head: MilvusRow) -> StoredDocument:
    """Return the document of a head that was read with `FIELDS`. Text and metadata that were not read are empty."""
    return StoredDocument(
        id=head["id"],
        text=head.get("text", ""),
        metadata=head.get("metadata", {}),
        passages=tuple((start, stop) for start, stop in head.get("passages", {}).get("spans", ())),
        row=head.get("arrival", 0),
        revision=head["revision"],
    )


def to_vector(row: MilvusRow) -> Vectors:
    """(D,) The vector of a row that was read with it."""
    return np.asarray(row["vector"], np.float32)


def head_of(id_: str) -> str:
    """Return the key of the head of the document with an id."""
    return digest_of(id_)


def chars_of(document: StoredDocument, *, text: bool = True, metadata: bool = True) -> int:
    """Characters of its text, and of its metadata as JSON, as far as they are wanted."""
    return len(document.text) * text + (len(orjson.dumps(document.metadata)) if metadata else 0)


def parts_of(values: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the values in lists of at most `size`."""
    remaining = iter(values)
    while part := list(islice(remaining, size)):
        yield part


def listed(field: str, digests: Sequence[str]) -> str:
    """Return the expression for rows whose field has one of these digests."""
    quoted = ", ".join(f'"{digest}"' for digest in digests)
    return f"{field} in [{quoted}]"


def heads_among(expression: str = "") -> str:
    """Return the expression for the heads among the rows that match one, or all."""
    return f"number == 0 and {expression}" if expression else "number == 0"


def _check(size: int, limit: int, what: str, unit: str) -> None:
    if size > limit:
        raise InvalidInput(
            f"{what} {size} {unit}; the limit is {limit} where Milvus keeps the documents (CROSSLET_INDEX)"
        )


def to_sparse(text: str) -> Sparse:
    """Return the vector of a document's text."""
    terms = document_terms(text)
    times: Counter[int] = Counter(map(number_of, terms))
    half = _half(len(terms))
    return {LENGTH: float(len(terms) or 1)} | {number: count / (count + half) for number, count in times.items()}


def occurrences(sparse: Mapping[int, float], number: int) -> int:
    """Return how often a document has a term that is in its vector."""
    share = sparse[number]
    return max(1, round(share * _half(sparse[LENGTH]) / max(1 - share, LEAST_REST)))


@lru_cache(CACHED_NUMBERS)
def number_of(term: str) -> int:
    """Return the number of a term."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest()) % NUMBERS + 1


def _half(length: float) -> float:
    """Return how many occurrences in a document of some length have half of a term's weight."""
    return K1 * (1 - B + B * length / MEAN_LENGTH)
