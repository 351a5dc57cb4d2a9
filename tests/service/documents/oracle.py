"""BM25 and its fusion with cosines by brute force, as a reading of the formulas; and a search by one vector."""

import math
from collections import Counter
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


def keyword_scores(query: str, texts: Sequence[str]) -> list[float]:
    """BM25 (Robertson & Zaragoza 2009) of each text, as a share of the most that any could have."""
    score_TN, idf_T = _bm25(query, texts)
    return [sum(score_T) / _most(idf_T) for score_T in score_TN]


def keyword_evidence(query: str, texts: Sequence[str]) -> list[float]:
    """The same with each word's part times its rarity; times the square of the share of the query that a text has."""
    score_TN, idf_T = _bm25(query, texts)
    rarity_T = [min(1, idf / _idf(1, len(texts))) for idf in idf_T]
    evidence = []
    for score_T in score_TN:
        score = sum(score * rarity for score, rarity in zip(score_T, rarity_T, strict=True)) / _most(idf_T)
        had = sum(idf * rarity for idf, rarity, score in zip(idf_T, rarity_T, score_T, strict=True) if score)
        evidence.append(score * (had / (sum(idf_T) or 1.0)) ** 2)
    return evidence


def _bm25(query: str, texts: Sequence[str]) -> tuple[list[list[float]], list[float]]:
    """Each text's BM25 by the query's terms, and their idf."""
    counts = [Counter(document_terms(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    scores: list[list[float]] = [[] for _ in texts]
    idf_T = []
    for term, is_start in query_terms(query).items():
        found = [
            sum(number for other, number in count.items() if (other.startswith(term) if is_start else other == term))
            for count in counts
        ]
        idf_T.append(_idf(sum(map(bool, found)), len(texts)))
        for place, number in enumerate(found):
            length = 1 - B + B * lengths[place] / mean
            scores[place].append(idf_T[-1] * number * (K1 + 1) / (number + K1 * length) if number else 0.0)
    return scores, idf_T


def _most(idf_T: Sequence[float]) -> float:
    return (K1 + 1) * sum(idf_T) or 1.0


def _idf(having: int, texts: int) -> float:
    return max(1e-6, math.log((texts - having + 0.5) / (having + 0.5)))
