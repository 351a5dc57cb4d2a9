"""Finds the passage of a document that answers a query best. Knows vectors and words; reads no store.

P passages, D dims
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.documents.keywords.fusion import hybrid_score
from service.documents.keywords.terms import occurring, query_terms
from service.documents.protocol import Vectors
from service.documents.query import Query
from service.documents.store.document import Span

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Passage:
    """A part of a document's text. start, stop: its place there, in characters (Unicode code points)."""

    text: str
    start: int
    stop: int


def best_passage(text: str, spans: Sequence[Span], vectors_PD: Vectors, query: Query) -> Passage:
    """The passage nearest to the query's vector, with most of its words, or both; of equal ones the first."""
    score_P = np.zeros(len(spans))
    if query.vector_D is not None:
        score_P = np.einsum("pd,d->p", vectors_PD, query.vector_D).astype(np.float64)
    if query.words is not None:
        score_P = hybrid_score(score_P, _word_shares([text[start:stop] for start, stop in spans], query.words))
    start, stop = spans[int(score_P.argmax())]
    return Passage(text[start:stop], start, stop)


def _word_shares(passages: Sequence[str], words: str) -> Scores:
    """(P,) In [0, 1]: how many of the query's terms that occur a passage has; the rarer among them count more."""
    wanted = query_terms(words)
    found_P = [occurring(wanted, passage) for passage in passages]
    count = Counter(term for found in found_P for term in found)
    total = sum(1 / times for times in count.values())
    return np.array([sum(1 / count[term] for term in found) / total if found else 0.0 for found in found_P])
