"""Measures cross-lingual search by cosines, keywords and both. Thresholds are chosen on dev; all else is test.

Differs: cosines of unrelated words and the skewness of hubs are of both.

Shapes: Q queries, A answered test queries, N documents, D dims.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew
from sklearn.feature_extraction.text import TfidfVectorizer

from service.documents.document import Document
from service.documents.interface import Query
from service.documents.search import HALF_EVIDENCE, hybrid_score
from service.documents.store.store import DocumentStore
from service.errors import CrossletError
from training.errors import EvaluationError
from training.evaluation.retrieval import bm25_scores
from training.evaluation.search import SearchSet
from training.evaluation.vectors import Encode, unit_rows

RESAMPLES = 2_000  # of the bootstrap
WORST_HUBS = 10
RANK_CONSTANT = 60
HALVES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0)  # of `hybrid_score`, compared on dev
Values = dict[str, float]
Groups = Mapping[str, NDArray[np.int64]]  # language or kind, or "all" -> rows


@dataclass(frozen=True)
class Answered:
    """The test queries that have an answer, the answers' documents, and groups of these queries."""

    row_A: NDArray[np.int64]
    document_A: NDArray[np.int64]
    by_language: Groups
    by_kind: Groups

    @classmethod
    def of(cls, search_set: SearchSet) -> Answered:
        """A test query has an answer."""
        queries = search_set.queries
        rows = [row for row, query in enumerate(queries) if query.document is not None and not query.is_dev]
        groups = [groups_of([getattr(queries[row], name) for row in rows]) for name in ("language", "kind")]
        return cls(np.array(rows), np.array([queries[row].document for row in rows]), *groups)

    def ranks(self, score_QN: NDArray[np.floating]) -> NDArray[np.int64]:
        """The rank of each answer, (A,); a tied document ranks above the answer."""
        score_AN = score_QN[self.row_A].astype(np.float32)
        own_A1 = np.take_along_axis(score_AN, self.document_A[:, None], axis=1)
        rank_A: NDArray[np.int64] = (score_AN >= own_A1).sum(axis=1)
        return rank_A


def groups_of(names: list[str]) -> Groups:
    """Name -> its rows; "all" has every row."""
    return {
        **{name: np.flatnonzero(np.array(names) == name) for name in sorted(set(names))},
        "all": np.arange(len(names)),
    }


def evaluate_search(encode_query: Encode, encode_document: Encode, search_set: SearchSet) -> dict[str, Values]:
    """Metric -> language, kind or detail -> score x 100; cosines and counts are unscaled."""
    texts, documents = [query.text for query in search_set.queries], search_set.documents
    query_QD, document_ND = unit_rows(encode_query(texts)), unit_rows(encode_document(documents))
    cosine_QN = query_QD @ document_ND.T
    centre_D = document_ND.mean(axis=0)
    centred_QN = unit_rows(query_QD - centre_D) @ unit_rows(document_ND - centre_D).T
    answered = Answered.of(search_set)
    named = [Document(str(number), text, {}) for number, text in enumerate(documents)]
    keyword_QN, evidence_QN = service_scores([Query(words=text) for text in texts], named)
    dev = {row: [one.document] for row, one in enumerate(search_set.queries) if one.is_dev and one.document is not None}
    return {
        **_ranking(answered, cosine_QN),
        **_top1(answered, centred_QN, "_centred"),
        **_hybrid(answered, cosine_QN, keyword_QN, evidence_QN),
        "_fusion_dev": fusions(dev, cosine_QN, evidence_QN),
        **_top1(answered, bm25_scores(texts, documents), "_bm25"),
        **_top1(answered, character_scores(texts, documents), "_tfidf"),
        "_hubs": _hubs(answered, cosine_QN),
        **_unrelated(query_QD, search_set),
        **_thresholds(cosine_QN, search_set),
    }


def service_scores(
    queries: Sequence[Query], documents: Sequence[Document]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The service's keyword scores and the evidence for fusion, both in [0, 1): (Q, N).

    Keywords are kept in a store of their own while this runs.

    Raises: EvaluationError: the temporary folder has no room for them.
    """
    try:
        with TemporaryDirectory() as folder:
            return _scores_in(Path(folder), queries, documents)
    except CrossletError as exc:
        raise EvaluationError(f"{gettempdir()} has no room for the keywords; TMPDIR names another folder") from exc


def _scores_in(
    folder: Path, queries: Sequence[Query], documents: Sequence[Document]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    score_QN, evidence_QN = np.zeros((2, len(queries), len(documents)))
    with closing(DocumentStore(folder / "documents.sqlite3", fingerprint="none", dim=1)) as store:
        with store.transaction() as transaction:
            transaction.upsert(documents, np.ones((len(documents), 1), np.float32))
            rows = transaction.rows_of([document.id for document in documents])
            transaction.commit()
        place = {row: number for number, row in enumerate(rows)}
        with store.snapshot() as snapshot:
            for number, query in enumerate(queries):
                hits = snapshot.with_keywords(query.words or "", typing=query.typing)
                places = [place[row] for row in hits.rows.tolist()]
                score_QN[number, places], evidence_QN[number, places] = hits.scores, hits.evidence
    return score_QN, evidence_QN


def character_scores(queries: list[str], documents: list[str]) -> NDArray[np.float32]:
    """Cosine of TF-IDF over n-grams of two to four characters within words: (Q, N)."""
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    document_NT = vectorizer.fit_transform(documents)
    score_QN: NDArray[np.float32] = (vectorizer.transform(queries) @ document_NT.T).toarray().astype(np.float32)
    return score_QN


def _ranking(answered: Answered, score_QN: NDArray[np.float32]) -> dict[str, Values]:
    """Top-1, top-3 and MRR by language, and top-1 by kind; top-1 with 95 % intervals."""
    rank_A, by_language, by_kind = answered.ranks(score_QN), answered.by_language, answered.by_kind
    return {
        "_top1": means(rank_A == 1, by_language),
        **intervals(rank_A == 1, by_language, "_top1"),
        "_top3": means(rank_A <= 3, by_language),
        "_mrr": means(1 / rank_A, by_language),
        "_top1_by_kind": means(rank_A == 1, by_kind),
        **intervals(rank_A == 1, by_kind, "_top1_by_kind"),
        "_queries": {name: float(len(rows)) for name, rows in by_language.items()},
    }


def _top1(answered: Answered, score_QN: NDArray[np.floating], name: str) -> dict[str, Values]:
    """Top-1 of another ranking, by language and by kind."""
    is_first_A = answered.ranks(score_QN) == 1
    return {
        f"_top1{name}": means(is_first_A, answered.by_language),
        f"_top1_by_kind{name}": means(is_first_A, answered.by_kind),
    }


def _hybrid(
    answered: Answered,
    cosine_QN: NDArray[np.float32],
    keyword_QN: NDArray[np.float64],
    evidence_QN: NDArray[np.float64],
) -> dict[str, Values]:
    """Top-1 of the service's keywords and of its hybrid search, what the latter gains, and of rank fusion."""
    hybrid_QN = hybrid_score(cosine_QN.astype(np.float64), evidence_QN)
    fused_QN = _reciprocal_ranks(cosine_QN) + np.where(keyword_QN > 0, _reciprocal_ranks(keyword_QN), 0)
    is_first_A = answered.ranks(hybrid_QN) == 1
    gain_A = is_first_A.astype(float) - (answered.ranks(cosine_QN) == 1)
    return {
        **_top1(answered, keyword_QN, "_keywords"),
        **_top1(answered, hybrid_QN, "_hybrid"),
        **_top1(answered, fused_QN, "_rrf"),
        **intervals(is_first_A, answered.by_kind, "_top1_by_kind_hybrid"),
        "_hybrid_gain": means(gain_A, answered.by_kind),
        **intervals(gain_A, answered.by_kind, "_hybrid_gain"),
    }


def fusions(
    right: Mapping[int, Collection[int]], cosine_QN: NDArray[np.floating], evidence_QN: NDArray[np.float64]
) -> Values:
    """Top-1 of hybrid search over `HALVES`; the first is in force. right: a query's row -> the documents to find."""
    if not right:
        return {}
    cosine_RN, evidence_RN = cosine_QN[[*right]].astype(np.float64), evidence_QN[[*right]]
    values: Values = {}
    for half in (HALF_EVIDENCE, *HALVES):
        first_R = hybrid_score(cosine_RN, evidence_RN, half).argmax(axis=1).tolist()
        is_right_R = [first in documents for first, documents in zip(first_R, right.values(), strict=True)]
        values[f"half {half:g}"] = round(100 * float(np.mean(is_right_R)), 1)
    return values


def _reciprocal_ranks(score_QN: NDArray[np.floating]) -> NDArray[np.float64]:
    """1 / (60 + rank), Cormack et al. 2009."""
    rank_QN = np.argsort(np.argsort(-score_QN, axis=1, kind="stable"), axis=1, kind="stable") + 1
    reciprocal_QN: NDArray[np.float64] = 1 / (RANK_CONSTANT + rank_QN)
    return reciprocal_QN


def means(value_A: NDArray[np.generic], groups: Groups) -> Values:
    """The mean of each group, x 100."""
    return {name: round(100 * float(value_A[rows].astype(float).mean()), 1) for name, rows in groups.items()}


def intervals(value_A: NDArray[np.generic], groups: Groups, name: str) -> dict[str, Values]:
    """Bootstrap: the bounds of the mean in 95 of 100 resamples of the queries."""
    generator = np.random.default_rng(0)
    low, high = {}, {}
    for group, rows in groups.items():
        means = generator.choice(value_A[rows], (RESAMPLES, len(rows))).mean(axis=1)
        low[group], high[group] = (round(100 * float(edge), 1) for edge in np.quantile(means, (0.025, 0.975)))
    return {f"{name}_low": low, f"{name}_high": high}


def _hubs(answered: Answered, score_QN: NDArray[np.float32]) -> Values:
    """Hubness: how many wrong first places the ten worst documents take, and the skewness of 10-occurrence."""
    documents = score_QN.shape[1]
    first_A = score_QN[answered.row_A].argmax(axis=1)
    wrong = first_A[first_A != answered.document_A]
    worst = np.sort(np.bincount(wrong, minlength=documents))[::-1][:WORST_HUBS]
    occurrence_N = np.bincount(np.argsort(-score_QN, axis=1)[:, :10].ravel(), minlength=documents)
    return {
        "share_of_worst_ten": round(100 * float(worst.sum()) / max(1, len(wrong)), 1),
        "wrong_first_places": float(len(wrong)),
        "skewness_of_10_occurrence": round(float(skew(occurrence_N)), 2) if np.ptp(occurrence_N) else 0.0,
    }


def _unrelated(query_QD: NDArray[np.float32], search_set: SearchSet) -> dict[str, Values]:
    """The mean cosine between single-word queries with different answers, where there are two."""
    rows = [row for row, query in enumerate(search_set.queries) if query.kind == "noun"]
    documents = np.array([search_set.queries[row].document for row in rows])
    cosine_M = (query_QD[rows] @ query_QD[rows].T)[documents[:, None] != documents]
    return {"_unrelated": {"mean_cosine": round(float(cosine_M.mean()), 3)}} if len(cosine_M) else {}


def _thresholds(score_QN: NDArray[np.float32], search_set: SearchSet) -> dict[str, Values]:
    """Score thresholds that tell answerable queries from unanswerable ones, by language.

    `min_score` is chosen on dev, where both kinds weigh alike. `kept` and `refused` apply it on test; `auc` needs none.
    """
    best_Q = score_QN.max(axis=1)
    has_answer_Q = np.array([query.document is not None for query in search_set.queries])
    is_dev_Q = np.array([query.is_dev for query in search_set.queries])
    everywhere = _best_threshold(best_Q[is_dev_Q], has_answer_Q[is_dev_Q])
    if everywhere is None:
        return {}
    scores: dict[str, Values] = {"_min_score": {}, "_kept": {}, "_refused": {}, "_auc": {}}
    for language, rows in groups_of([query.language for query in search_set.queries]).items():
        dev, test = rows[is_dev_Q[rows]], rows[~is_dev_Q[rows]]
        positive, negative = best_Q[test[has_answer_Q[test]]], best_Q[test[~has_answer_Q[test]]]
        if not len(positive) or not len(negative):
            continue
        own = _best_threshold(best_Q[dev], has_answer_Q[dev])
        # a language has few dev queries: average its threshold with that of all languages
        threshold = round(everywhere if own is None else (own + everywhere) / 2, 3)
        scores["_min_score"][language] = threshold
        scores["_kept"][language] = round(100 * float((positive >= threshold).mean()), 1)
        scores["_refused"][language] = round(100 * float((negative < threshold).mean()), 1)
        scores["_auc"][language] = round(100 * float((positive[:, None] > negative).mean()), 1)
    return scores


def _best_threshold(score_Q: NDArray[np.float32], has_answer_Q: NDArray[np.bool_]) -> float | None:
    positive, negative = np.sort(score_Q[has_answer_Q]), np.sort(score_Q[~has_answer_Q])
    if not len(positive) or not len(negative):
        return None
    candidates = np.unique(score_Q)
    kept = 1 - np.searchsorted(positive, candidates) / len(positive)
    refused = np.searchsorted(negative, candidates) / len(negative)
    return float(candidates[np.argmax(kept + refused)])
