"""Passage retrieval: ranks passages for queries by cosine and scores the rankings.

Two layouts, each plain or .gz:
    BiPaR: queries.tsv and passages.tsv with id<TAB>text or id<TAB>language<TAB>text; qrels.tsv with
           query<TAB>passage or query<TAB>passage<TAB>grade
    BEIR:  queries.jsonl with _id, text; corpus.jsonl with _id, title, text; qrels/test.tsv with a header and
           query<TAB>passage<TAB>grade
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.errors import EvaluationError
from training.evaluation.lines import check_unique, find_file, parse_lines, parse_score, read_json_lines, split_columns
from training.evaluation.ranking import accuracy_at, average_precision_at, ndcg_at, reciprocal_rank_at
from training.evaluation.vectors import Encode, nearest

DEPTH = 100  # passages ranked for each query

Qrels = dict[str, dict[str, float]]  # query id -> passage id -> relevance grade


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
        found = RetrievalSet(_read_tsv(paths[0]), _read_tsv(paths[1]), _read_qrels(paths[2]))
    elif (paths := [path for path in beir if path]) and len(paths) == len(beir):
        found = RetrievalSet(_read_jsonl(paths[0]), _read_jsonl(paths[1]), _read_qrels(paths[2]))
    else:
        return None
    if unknown := found.qrels.keys() - found.queries.keys():
        raise EvaluationError(f"{paths[2]} judges {len(unknown)} queries that {paths[0]} lacks")
    if not any(grades.keys() & found.passages.keys() for grades in found.qrels.values()):
        raise EvaluationError(f"{paths[2]} judges no passage of {paths[1]}")
    return found


def rank_passages(
    encode: Encode, found: RetrievalSet, depth: int = DEPTH, *, encode_passages: Encode | None = None
) -> dict[str, list[str]]:
    """Passage ids for each judged query, best first; ties in the order of the file."""
    query_ids, passage_ids = list(found.qrels), list(found.passages)
    query_QD = encode([found.queries[query] for query in query_ids])
    passage_ND = (encode_passages or encode)(list(found.passages.values()))
    _, indices_QK = nearest(query_QD, passage_ND, depth)
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
    found = read_retrieval(folder)
    if not found:
        return {}
    return score_rankings(rank_passages(encode, found, encode_passages=encode_passages), found.qrels)


def _read_tsv(path: Path) -> dict[str, str]:
    """id -> text; an optional language column between them is ignored."""

    def parse(line: str) -> tuple[str, str]:
        columns = split_columns(line, "id<TAB>language<TAB>text" if line.count("\t") == 2 else "id<TAB>text")
        return columns[0], columns[-1]

    return _unique(path, parse_lines(path, parse, "id<TAB>text or id<TAB>language<TAB>text"))


def _read_jsonl(path: Path) -> dict[str, str]:
    """_id -> title and text."""
    rows = read_json_lines(path, ("_id", "text"))
    return _unique(path, [(row["_id"], f"{row.get('title') or ''} {row['text']}".strip()) for row in rows])


def _unique(path: Path, rows: list[tuple[str, str]]) -> dict[str, str]:
    check_unique(path, [id_ for id_, _ in rows], "id")
    return dict(rows)


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
