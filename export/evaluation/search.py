"""Cross-lingual search with known answers: documents and queries in many languages; one document answers a query.

    documents.jsonl   id, language, text
    queries.jsonl     id, language, kind, split (dev or test), text, document (the answer's id; null: no answer)

Each plain or .gz. Thresholds are chosen on dev; everything else is measured on test.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from service.blending import hybrid_score
from service.documents.document import Document
from service.documents.store.store import DocumentStore
from service.errors import CrossletError
from training.errors import EvaluationError
from training.evaluation.lines import check_unique, find_file, read_json_lines
from training.evaluation.retrieval import bm25_scores
from training.evaluation.vectors import Encode, unit_rows

RESAMPLES = 2_000  # of the bootstrap
WORST_HUBS = 10
RANK_CONSTANT = 60
Values = dict[str, float]


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
    for path, found in ((documents_path, documents), (queries_path, rows)):
        check_unique(path, [row["id"] for row in found], "id")
    index = {row["id"]: number for number, row in enumerate(documents)}
    unknown = [row["id"] for row in rows if row.get("document") is not None and row["document"] not in index]
    if unknown:
        raise EvaluationError(f"{queries_path}: query {unknown[0]} names a document that {documents_path} lacks")
    queries = [
        Query(row["text"], row["language"], row["kind"], row["split"] == "dev", index.get(row.get("document") or ""))
        for row in rows
    ]
    return SearchSet([row["text"] for row in documents], queries)


def evaluate_search(encode_query: Encode, encode_document: Encode, found: SearchSet) -> dict[str, Values]:
    """Metric -> language, kind or detail -> score x 100; cosines and counts are unscaled."""
    texts = [query.text for query in found.queries]
    query_QD, document_ND = unit_rows(encode_query(texts)), unit_rows(encode_document(found.documents))
    cosine_QN = query_QD @ document_ND.T
    centre_D = document_ND.mean(axis=0)
    centred_QN = unit_rows(query_QD - centre_D) @ unit_rows(document_ND - centre_D).T
    scores = {
        **_ranking(cosine_QN, found),
        **_first(centred_QN, found, "_centred"),
        **_hybrid(cosine_QN, service_scores(texts, found.documents), found),
        **_first(bm25_scores(texts, found.documents), found, "_bm25"),
        **_first(character_scores(texts, found.documents), found, "_tfidf"),
        "_hubs": _hubs(cosine_QN, found),
        "_unrelated": {"mean_cosine": _mean_of_nouns(query_QD, found)},
    }
    return scores | _thresholds(cosine_QN, found)


def service_scores(queries: list[str], documents: list[str]) -> NDArray[np.float64]:
    """The service's keyword scores, in [0, 1): (Q, N). Keywords are kept in a store of their own while this runs.

    Raises: EvaluationError: the temporary folder has no room for them.
    """
    try:
        with TemporaryDirectory() as folder:
            return _scores_in(Path(folder), queries, documents)
    except CrossletError as exc:
        raise EvaluationError(f"{gettempdir()} has no room for the keywords; TMPDIR names another folder") from exc


def _scores_in(folder: Path, queries: list[str], documents: list[str]) -> NDArray[np.float64]:
    score_QN = np.zeros((len(queries), len(documents)))
    with closing(DocumentStore(folder / "documents.sqlite3", fingerprint="none", dim=1)) as store:
        with store.transaction() as transaction:
            named = [Document(str(number), text, {}) for number, text in enumerate(documents)]
            transaction.upsert(named, np.ones((len(named), 1), np.float32))
            rows = transaction.rows_of([document.id for document in named])
            transaction.commit()
        place = {row: number for number, row in enumerate(rows)}
        with store.snapshot() as snapshot:
            for score_N, query in zip(score_QN, queries, strict=True):
                hits = snapshot.with_keywords(query)
                score_N[[place[row] for row in hits.rows.tolist()]] = hits.scores
    return score_QN


def character_scores(queries: list[str], documents: list[str]) -> NDArray[np.float32]:
    """Cosine of TF-IDF over n-grams of two to four characters within words: (Q, N)."""
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    document_NT = vectorizer.fit_transform(documents)
    found: NDArray[np.float32] = (vectorizer.transform(queries) @ document_NT.T).toarray().astype(np.float32)
    return found


def _ranking(score_QN: NDArray[np.float32], found: SearchSet) -> dict[str, Values]:
    """Top-1, top-3 and MRR by language, and top-1 by kind; top-1 with 95 % intervals."""
    rank_Q, answered = _ranks(score_QN, found)
    by_language, by_kind = _groups(answered, "language"), _groups(answered, "kind")
    return {
        "_top1": _means(rank_Q == 1, by_language),
        **_intervals(rank_Q == 1, by_language, "_top1"),
        "_top3": _means(rank_Q <= 3, by_language),
        "_mrr": _means(1 / rank_Q, by_language),
        "_top1_by_kind": _means(rank_Q == 1, by_kind),
        **_intervals(rank_Q == 1, by_kind, "_top1_by_kind"),
        "_queries": {name: float(len(rows)) for name, rows in by_language.items()},
    }


def _first(score_QN: NDArray[np.float32], found: SearchSet, name: str) -> dict[str, Values]:
    """Top-1 of another ranking, by language and by kind."""
    rank_Q, answered = _ranks(score_QN, found)
    return {
        f"_top1{name}": _means(rank_Q == 1, _groups(answered, "language")),
        f"_top1_by_kind{name}": _means(rank_Q == 1, _groups(answered, "kind")),
    }


def _hybrid(cosine_QN: NDArray[np.float32], keyword_QN: NDArray[np.float64], found: SearchSet) -> dict[str, Values]:
    """Top-1 of the service's keywords and of its hybrid search, what the latter gains, and of rank fusion."""
    hybrid_QN = hybrid_score(cosine_QN.astype(np.float64), keyword_QN).astype(np.float32)
    of_words_QN = np.where(keyword_QN > 0, _reciprocal_ranks(keyword_QN), 0)
    fused_QN = (_reciprocal_ranks(cosine_QN) + of_words_QN).astype(np.float32)
    dense_Q, answered = _ranks(cosine_QN, found)
    hybrid_Q, _ = _ranks(hybrid_QN, found)
    groups = _groups(answered, "kind")
    gain_Q = (hybrid_Q == 1).astype(float) - (dense_Q == 1)
    return {
        **_first(keyword_QN.astype(np.float32), found, "_keywords"),
        **_first(hybrid_QN, found, "_hybrid"),
        **_first(fused_QN, found, "_rrf"),
        **_intervals(hybrid_Q == 1, groups, "_top1_by_kind_hybrid"),
        "_hybrid_gain": _means(gain_Q, groups),
        **_intervals(gain_Q, groups, "_hybrid_gain"),
    }


def _reciprocal_ranks(score_QN: NDArray[np.floating]) -> NDArray[np.float64]:
    """1 / (60 + rank), Cormack et al. 2009."""
    rank_QN = np.argsort(np.argsort(-score_QN, axis=1, kind="stable"), axis=1, kind="stable") + 1
    reciprocal_QN: NDArray[np.float64] = 1 / (RANK_CONSTANT + rank_QN)
    return reciprocal_QN


def _ranks(score_QN: NDArray[np.float32], found: SearchSet) -> tuple[NDArray[np.int64], list[Query]]:
    """The rank of the answer, for each test query that has one; a tied document ranks above the answer."""
    rows = [row for row, query in enumerate(found.queries) if query.document is not None and not query.is_dev]
    if not rows:
        raise EvaluationError("no test query of the search set has an answer")
    answered = [found.queries[row] for row in rows]
    answer_Q = np.array([query.document for query in answered])
    own_Q = score_QN[rows, answer_Q]
    return (score_QN[rows] >= own_Q[:, None]).sum(axis=1), answered


def _groups(queries: list[Query], attribute: str) -> dict[str, NDArray[np.int64]]:
    names = np.array([getattr(query, attribute) for query in queries])
    return {**{str(name): np.flatnonzero(names == name) for name in np.unique(names)}, "all": np.arange(len(names))}


def _means(value_Q: NDArray[np.generic], groups: Mapping[str, NDArray[np.int64]]) -> Values:
    return {name: round(100 * float(value_Q[rows].astype(float).mean()), 1) for name, rows in groups.items()}


def _intervals(value_Q: NDArray[np.generic], groups: Mapping[str, NDArray[np.int64]], name: str) -> dict[str, Values]:
    """Where the mean of 95 of 100 resamples of the queries lies."""
    generator = np.random.default_rng(0)
    low, high = {}, {}
    for group, rows in groups.items():
        means = generator.choice(value_Q[rows], (RESAMPLES, len(rows))).mean(axis=1)
        low[group], high[group] = (round(100 * float(edge), 1) for edge in np.quantile(means, (0.025, 0.975)))
    return {f"{name}_low": low, f"{name}_high": high}


def _hubs(score_QN: NDArray[np.float32], found: SearchSet) -> Values:
    """Hubness: how many wrong first places the ten worst documents take, and the skewness of 10-occurrence."""
    wrong = [
        int(score_QN[row].argmax())
        for row, query in enumerate(found.queries)
        if query.document is not None and not query.is_dev and score_QN[row].argmax() != query.document
    ]
    counts = np.sort(np.bincount(wrong, minlength=len(found.documents)))[::-1]
    occurrence_N = np.bincount(np.argsort(-score_QN, axis=1)[:, :10].ravel(), minlength=len(found.documents))
    spread = occurrence_N.std() or 1.0
    return {
        "share_of_worst_ten": round(100 * float(counts[:WORST_HUBS].sum()) / max(1, len(wrong)), 1),
        "wrong_first_places": float(len(wrong)),
        "skewness_of_10_occurrence": round(float((((occurrence_N - occurrence_N.mean()) / spread) ** 3).mean()), 2),
    }


def _mean_of_nouns(query_QD: NDArray[np.float32], found: SearchSet) -> float:
    """The mean cosine between single-word queries with different answers."""
    rows = [row for row, query in enumerate(found.queries) if query.kind == "noun"]
    documents = np.array([found.queries[row].document for row in rows])
    cosine_WW = query_QD[rows] @ query_QD[rows].T
    return round(float(cosine_WW[documents[:, None] != documents].mean()), 3)


def _thresholds(score_QN: NDArray[np.float32], found: SearchSet) -> dict[str, Values]:
    """Score thresholds that tell answerable queries from unanswerable ones, by language.

    `min_score` is chosen on dev, where both kinds weigh alike. `kept` and `refused` apply it on test; `auc` needs none.
    """
    best_Q = score_QN.max(axis=1)
    chosen: Values = {}
    kept: Values = {}
    refused: Values = {}
    area: Values = {}
    has_answer_Q = np.array([query.document is not None for query in found.queries])
    is_dev_Q = np.array([query.is_dev for query in found.queries])
    language_Q = np.array([query.language for query in found.queries])
    if has_answer_Q.all():
        return {}
    everywhere = _best_threshold(best_Q[is_dev_Q], has_answer_Q[is_dev_Q])
    if everywhere is None:
        return {}
    for language in [*sorted(set(language_Q)), "all"]:
        mine_Q = (language_Q == language) | (language == "all")
        own_dev, own_test = mine_Q & is_dev_Q, mine_Q & ~is_dev_Q
        positive, negative = best_Q[own_test & has_answer_Q], best_Q[own_test & ~has_answer_Q]
        if not len(positive) or not len(negative):
            continue
        own = _best_threshold(best_Q[own_dev], has_answer_Q[own_dev])
        # a language has few dev queries: average its threshold with that of all languages
        chosen[language] = round(everywhere if own is None else (own + everywhere) / 2, 3)
        kept[language] = round(100 * float((positive >= chosen[language]).mean()), 1)
        refused[language] = round(100 * float((negative < chosen[language]).mean()), 1)
        area[language] = round(100 * float((positive[:, None] > negative).mean()), 1)
    return {"_min_score": chosen, "_kept": kept, "_refused": refused, "_auc": area}


def _best_threshold(score_Q: NDArray[np.float32], has_answer_Q: NDArray[np.bool_]) -> float | None:
    positive, negative = np.sort(score_Q[has_answer_Q]), np.sort(score_Q[~has_answer_Q])
    if not len(positive) or not len(negative):
        return None
    candidates = np.unique(score_Q)
    kept = 1 - np.searchsorted(positive, candidates) / len(positive)
    refused = np.searchsorted(negative, candidates) / len(negative)
    return float(candidates[np.argmax(kept + refused)])
