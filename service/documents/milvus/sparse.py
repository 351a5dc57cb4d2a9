"""A document's terms as a sparse vector of Milvus, and back.

Each term has a number, and there the share of its weight in BM25 that its occurrences reach, in a document of this
length, if the mean is MEAN_LENGTH. So an inner product with the terms' rarity is nearly BM25. Number 0 has the length,
from which the occurrences are told again: a search scores them by today's mean.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from service.documents.keywords.index import K1, B
from service.documents.keywords.terms import document_terms

MEAN_LENGTH = 30  # terms; of what is stored
LENGTH = 0
NUMBERS = 2**31 - 1  # from 1 on; of 100,000 terms two or three share one
CACHED_NUMBERS = 16_384
LEAST_REST = 1e-6  # a float32 cannot tell smaller differences from 1

Sparse = dict[int, float]
NO_TERMS: Sparse = {LENGTH: 1.0}  # Milvus refuses an empty one


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
