"""Passage retrieval: ranks passages for queries by cosine and scores the rankings; BM25 to compare with.

Two layouts, each plain or .gz:
    BiPaR: queries.tsv and passages.tsv with id<TAB>text or id<TAB>language<TAB>text; qrels.tsv with
           query<TAB>passage or query<TAB>passage<TAB>grade
    BEIR:  queries.jsonl with _id, text; corpus.jsonl with _id, title, text; qrels/test.tsv with a header and
           query<TAB>passage<TAB>grade

Metrics are those of trec_eval: pure functions of relevance grades. `grades` are the grades of the ranked documents,
best rank first; above 0 is relevant. `judged` are the grades of all judged documents, in any order.

Shapes: Q queries, N documents, T terms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from training.errors import EvaluationError
from training.evaluation.lines import (
    by_id,
    check_unique,
    find_file,
    parse_lines,
    parse_score,
    read_json_lines,
    split_columns,
)
from training.evaluation.vectors import Encode, nearest

DEPTH = 100  # passages ranked for each query

Qrels = dict[str, dict[str, float]]  # query id -> passage id -> relevance grade
K1, B = 1.2, 0.75  # BM25's, as Lucene has them
UNSPACED = r"\u3040-\u30ff\u4e00-\u9fff"  # kana and Han: words run together
RUN = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")


def accuracy_at(k: int, grades: Sequence[float]) -> float:
    """1 if one of the first k is relevant, else 0 (trec_eval's success)."""
    return float(any(grade > 0 for grade in grades[:k]))


def reciprocal_rank_at(k: int, grades: Sequence[float]) -> float:
    """1 / rank of the first relevant document; 0 if none is among the first k. Its mean is MRR@k."""
    return next((1 / rank for rank, grade in enumerate(grades[:k], start=1) if grade > 0), 0.0)


def average_precision_at(k: int, grades: Sequence[float], judged: Sequence[float]) -> float:
    """Mean precision at the rank of each relevant document, 0 beyond k. Its mean over queries is MAP@k."""
    relevant, total = 0, 0.0
    for rank, grade in enumerate(grades[:k], start=1):
        if grade > 0:
            relevant += 1
            total += relevant / rank
    return total / max(1, sum(grade > 0 for grade in judged))


def ndcg_at(k: int, grades: Sequence[float], judged: Sequence[float]) -> float:
    """Discounted gain of the first k over that of an ideal ranking (Järvelin & Kekäläinen 2002; gain = grade)."""
    ideal = discounted_gain(sorted(judged, reverse=True)[:k])
    return discounted_gain(grades[:k]) / ideal if ideal else 0.0


def discounted_gain(grades: Sequence[float]) -> float:
    """Sum of grade / log2(rank + 1)."""
    return sum(max(0.0, grade) / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))


@dataclass(frozen=True)
class RetrievalSet:
    """Queries and passages by id, and the relevance judgements."""

    queries: Mapping[str, str]
    passages: Mapping[str, str]
    qrels: Qrels


def read_retrieval(folder: Path) -> RetrievalSet | None:
    """Read the set in a folder, in either layout; None if there is none.

    Raises: EvaluationError: a line is malformed, a judged query has no text, or no judged passage exists.
    """
    bipar = [find_file(folder / name) for name in ("queries.tsv", "passages.tsv", "qrels.tsv")]
    beir = [find_file(folder / name) for name in ("queries.jsonl", "corpus.jsonl", "qrels/test.tsv")]
    if (paths := [path for path in bipar if path]) and len(paths) == len(bipar):
        test_set = RetrievalSet(_read_tsv(paths[0]), _read_tsv(paths[1]), _read_qrels(paths[2]))
    elif (paths := [path for path in beir if path]) and len(paths) == len(beir):
        test_set = RetrievalSet(_read_jsonl(paths[0]), _read_jsonl(paths[1]), _read_qrels(paths[2]))
    else:
        return None
    if unknown := test_set.qrels.keys() - test_set.queries.keys():
        raise EvaluationError(f"{paths[2]} judges {len(unknown)} queries that {paths[0]} lacks")
    if not any(grades.keys() & test_set.passages.keys() for grades in test_set.qrels.values()):
        raise EvaluationError(f"{paths[2]} judges no passage of {paths[1]}")
    return test_set


def rank_passages(
    encode: Encode, test_set: RetrievalSet, *, encode_passages: Encode | None = None
) -> dict[str, list[str]]:
    """Passage ids for each judged query, best first; ties in the order of the file."""
    query_ids, passage_ids = list(test_set.qrels), list(test_set.passages)
    query_QD = encode([test_set.queries[query] for query in query_ids])
    passage_ND = (encode_passages or encode)(list(test_set.passages.values()))
    _, indices_QK = nearest(query_QD, passage_ND, DEPTH)
    return {query: [passage_ids[index] for index in row] for query, row in zip(query_ids, indices_QK, strict=True)}


def score_rankings(rankings: Mapping[str, list[str]], qrels: Qrels) -> dict[str, float]:
    """Mean of each metric x 100, over the queries that have a relevant passage.

    Raises: EvaluationError: no query has one.
    """
    rows = []
    for query, ranked in rankings.items():
        judged = list(qrels[query].values())
        if any(grade > 0 for grade in judged):
            grades = [qrels[query].get(passage, 0.0) for passage in ranked]
            rows.append(
                {
                    "acc@1": accuracy_at(1, grades),
                    "acc@5": accuracy_at(5, grades),
                    "acc@10": accuracy_at(10, grades),
                    "mrr@10": reciprocal_rank_at(10, grades),
                    "map@100": average_precision_at(100, grades, judged),
                    "ndcg@10": ndcg_at(10, grades, judged),
                }
            )
    if not rows:
        raise EvaluationError("no query of the set has a relevant passage")
    return {metric: round(100 * float(np.mean([row[metric] for row in rows])), 2) for metric in rows[0]}


def evaluate_retrieval(encode: Encode, folder: Path, *, encode_passages: Encode | None = None) -> dict[str, float]:
    """Metric -> score of a folder's set; empty if there is none. encode_passages: None: passages use `encode`."""
    test_set = read_retrieval(folder)
    if not test_set:
        return {}
    return score_rankings(rank_passages(encode, test_set, encode_passages=encode_passages), test_set.qrels)


def _read_tsv(path: Path) -> dict[str, str]:
    """id -> text; an optional language column between them is ignored."""

    def parse(line: str) -> tuple[str, str]:
        columns = split_columns(line, "id<TAB>language<TAB>text" if line.count("\t") == 2 else "id<TAB>text")
        return columns[0], columns[-1]

    return by_id(path, parse_lines(path, parse, "id<TAB>text or id<TAB>language<TAB>text"))


def _read_jsonl(path: Path) -> dict[str, str]:
    """_id -> title and text."""
    rows = read_json_lines(path, ("_id", "text"))
    return by_id(path, [(row["_id"], f"{row.get('title') or ''} {row['text']}".strip()) for row in rows])


def _read_qrels(path: Path) -> Qrels:
    judgements = parse_lines(path, _judgement, "query<TAB>passage or query<TAB>passage<TAB>grade")
    judged = [judgement and f"{judgement[0]}, {judgement[1]}" for judgement in judgements]
    check_unique(path, judged, "query and passage")
    qrels: Qrels = {}
    for query, passage, grade in filter(None, judgements):
        qrels.setdefault(query, {})[passage] = grade
    return qrels


def _judgement(line: str) -> tuple[str, str, float] | None:
    """Query, passage and grade; None for BEIR's header."""
    if line.startswith("query-id\t"):
        return None
    if line.count("\t") == 1:
        query, passage = split_columns(line, "query<TAB>passage")
        return query, passage, 1.0
    query, passage, grade = split_columns(line, "query<TAB>passage<TAB>grade")
    return query, passage, parse_score(grade)


def bm25_scores(queries: list[str], documents: list[str]) -> NDArray[np.float32]:
    """Okapi BM25 (Robertson & Zaragoza 2009) over lower-case words: (Q, N)."""
    counter = CountVectorizer(analyzer=_words)
    count_NT = counter.fit_transform(documents).astype(np.float64)
    documents_T = np.bincount(count_NT.indices, minlength=count_NT.shape[1])
    idf_T = np.log1p((len(documents) - documents_T + 0.5) / (documents_T + 0.5))
    length_N = np.asarray(count_NT.sum(axis=1)).ravel()
    norm_N = K1 * (1 - B + B * length_N / length_N.mean())
    rows = np.repeat(np.arange(len(documents)), np.diff(count_NT.indptr))
    count_NT.data = count_NT.data * (K1 + 1) / (count_NT.data + norm_N[rows]) * idf_T[count_NT.indices]
    score_QN: NDArray[np.float32] = (counter.transform(queries) @ count_NT.T).toarray().astype(np.float32)
    return score_QN


def _words(text: str) -> list[str]:
    """Split into words; scripts without spaces into character bigrams, like Lucene's CJK analyser."""
    words: list[str] = []
    for run in RUN.findall(text.lower()):
        is_unspaced = re.match(f"[{UNSPACED}]", run) and len(run) > 1
        words += [run[start : start + 2] for start in range(len(run) - 1)] if is_unspaced else [run]
    return words
