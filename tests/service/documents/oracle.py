"""BM25 and its fusion with cosines by brute force, as a reading of the formulas; and a search by one vector."""

import math
from collections.abc import Mapping, Sequence

from service.documents.document import Vectors
from service.documents.interface import DocumentIndex, Match, Query
from service.documents.keywords.terms import document_terms, query_terms

K1, B = 1.2, 0.75


def search_one(
    index: DocumentIndex, vector_D: Vectors, *, top_k: int, filter_: Mapping[str, object] | None = None
) -> list[Match]:
    """Return what one search by a vector finds."""
    return index.search_all([Query(vector_D)], top_k=top_k, filter_=filter_)[0]


def keyword_scores(query: str, texts: Sequence[str], *, rarity: float = 0) -> list[float]:
    """BM25 (Robertson & Zaragoza 2009) of each text, as a share of the most that any could have.

    rarity: what a word adds is multiplied by its idf to this power, as a share of that of a word in one text.
    """
    counts = [_counted(document_terms(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    scores, most = [0.0] * len(texts), 0.0
    for term, is_start in query_terms(query).items():
        found = [
            sum(number for other, number in count.items() if (other.startswith(term) if is_start else other == term))
            for count in counts
        ]
        having = sum(map(bool, found))
        idf = _idf(having, len(texts))
        most += idf * (K1 + 1)
        for place, number in enumerate(found):
            length = 1 - B + B * lengths[place] / mean
            score = idf * number * (K1 + 1) / (number + K1 * length) if number else 0.0
            scores[place] += score * min(1, idf / _idf(1, len(texts))) ** rarity
    return [score / most if most else 0.0 for score in scores]


def _idf(having: int, texts: int) -> float:
    return max(1e-6, math.log((texts - having + 0.5) / (having + 0.5)))


def _counted(terms: Sequence[str]) -> Mapping[str, int]:
    return {term: terms.count(term) for term in terms}
