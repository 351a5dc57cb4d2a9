"""Measures search as people type it: part numbers and parts of them, typos, prefixes, compounds, FAQs.

    documents.jsonl   id, language, text; an answer of a FAQ also: topic
    typed.jsonl       id, language, kind, split (dev or test), text, documents: the ids that are right

Each plain or .gz. Documents are put and searched by the service's own code, in each mode.

Shapes: Q queries, N documents, P passages, D dims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from export.evaluation.search import fusions, groups_of, intervals, means, service_scores
from service.documents.collections import Collection, IndexOptions
from service.documents.document import Document
from service.documents.interface import Match, Query, ResultOptions
from service.documents.language import language_of, preference
from service.documents.names import Mode
from service.documents.store.store import DocumentStore
from service.errors import StorageFull
from training.errors import EvaluationError
from training.evaluation.encoders import Split
from training.evaluation.report import MetricScores
from training.evaluation.search import PARTS, read_rows_of
from training.evaluation.vectors import Encode, unit_rows

DEPTH = 5  # results that are looked at
UNFINISHED = {"code_start", "prefix_4", "prefix_6"}  # kinds whose last word is still being typed
FAQ = {"faq", "faq_abroad"}
BY_TOPIC = ResultOptions(group_by="topic")
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class TypedQuery:
    """A query. documents: the ids of those that are right."""

    text: str
    language: str
    kind: str
    is_dev: bool
    documents: frozenset[str]


@dataclass(frozen=True)
class TypedSet:
    """Documents with their metadata, and queries over them."""

    documents: list[Document]
    queries: list[TypedQuery]

    def topic_of(self) -> dict[str, str]:
        """Return the topic of each document that has one, by its id."""
        return {one.id: one.metadata["topic"] for one in self.documents if "topic" in one.metadata}


def read_typed(folder: Path) -> TypedSet | None:
    """Read the set in a folder; None if there is none.

    Raises: EvaluationError: a line is malformed, an id is repeated, or a query names no document that exists.
    """
    if (rows_of := read_rows_of(folder, "typed.jsonl")) is None:
        return None
    documents, rows = rows_of
    ids = {row["id"] for row in documents}
    for row in rows:
        right = row.get("documents") or ()
        is_list = isinstance(right, list) and all(isinstance(id_, str) for id_ in right)
        if not is_list or not ids.issuperset(right):
            raise EvaluationError(f"{folder}: query {row['id']} names no list of documents of documents.jsonl")
    return TypedSet(
        [
            Document(row["id"], row["text"], {"lang": row["language"]} | {k: row[k] for k in ("topic",) if k in row})
            for row in documents
        ],
        [
            TypedQuery(row["text"], row["language"], row["kind"], row["split"] == "dev", frozenset(row["documents"]))
            for row in rows
        ],
    )


def evaluate_typing(
    encode_query: Encode, encode_document: Encode, split: Split | None, typed: TypedSet
) -> MetricScores:
    """Part and kind, language or all -> measure x 100: right first in each mode, right among three in hybrid search.

    Words of `UNFINISHED` kinds are sent as being typed; questions to the FAQ prefer answers in their language. `gain`
    is what hybrid search has more than the better of its parts, with the bounds of its 95 % interval. `topics` counts
    topics among the first five results, grouped by topic, of the questions that have one. `fusion_dev` prefers nothing.

    Raises: EvaluationError: the temporary folder is full.
    """
    vector_QD = unit_rows(encode_query([query.text for query in typed.queries]))
    topic_of = typed.topic_of()
    rank_Q: dict[str, NDArray[np.int64]] = {}
    topics_Q: dict[str, NDArray[np.int64]] = {}
    with collection_of(typed.documents, encode_document, split) as collection:
        for mode in MODES:
            asked_Q = [_query(*of_query, mode) for of_query in zip(typed.queries, vector_QD, strict=True)]
            results_Q = [collection.search_all([asked], top_k=DEPTH)[0] for asked in asked_Q]
            rank_Q[mode] = np.array(list(map(_rank, typed.queries, results_Q)))
            topics_Q[mode] = np.array(
                [
                    _count_topics(collection.search_all([asked], top_k=DEPTH, options=BY_TOPIC)[0], topic_of)
                    if query.documents & topic_of.keys()
                    else 0
                    for query, asked in zip(typed.queries, asked_Q, strict=True)
                ]
            )
    scores: MetricScores = {"_fusion_dev": _fusions(typed, vector_QD, encode_document)}
    for part in PARTS:
        rows = np.flatnonzero([query.is_dev == (part == "dev") for query in typed.queries])
        groups = _groups(typed.queries, rows)
        scores |= {f"_{part}_{name}": _measures(rank_Q, group) for name, group in groups.items()}
        answers = [row for row in rows if typed.queries[row].documents & topic_of.keys()]
        if answers:
            scores[f"_{part}_topics"] = {mode: round(float(topics_Q[mode][answers].mean()), 2) for mode in MODES}
    return scores


def _fusions(typed: TypedSet, vector_QD: NDArray[np.float32], encode: Encode) -> dict[str, float]:
    place_of = {document.id: place for place, document in enumerate(typed.documents)}
    right = {row: [place_of[id_] for id_ in query.documents] for row, query in enumerate(typed.queries) if query.is_dev}
    document_ND = unit_rows(encode([document.text for document in typed.documents]))
    asked = [Query(words=query.text, typing=query.kind in UNFINISHED) for query in typed.queries]
    return fusions(right, vector_QD @ document_ND.T, service_scores(asked, typed.documents)[1])


def _groups(queries: Sequence[TypedQuery], rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Kinds, all, and languages -> their rows."""
    if not len(rows):
        return {}
    of_kind = groups_of([queries[row].kind for row in rows])
    of_language = groups_of([f"in_{queries[row].language}" for row in rows])
    return {name: rows[group] for name, group in {**of_kind, **of_language}.items()}


@contextmanager
def collection_of(documents: Sequence[Document], encode: Encode, split: Split | None) -> Iterator[Collection]:
    """Lend a collection of the documents, in passages as served, in a temporary folder."""
    named = [Document(one.id, one.text, one.metadata, split(one.text) if split else ()) for one in documents]
    vectors_PD = unit_rows(encode([part for document in named for part in document.parts]))
    with TemporaryDirectory() as name:
        folder, dim = Path(name), vectors_PD.shape[1]
        options = IndexOptions(folder=folder, fingerprint="none", dim=dim, exact_documents=len(vectors_PD))
        store = DocumentStore(folder / "documents.sqlite3", fingerprint="none", dim=dim)
        with closing(Collection(store, options)) as collection:
            try:
                collection.put(named, vectors_PD)
            except StorageFull as exc:
                raise EvaluationError(f"{gettempdir()} is full; TMPDIR names another folder") from exc
            yield collection


def _query(query: TypedQuery, vector_D: NDArray[np.float32], mode: Mode) -> Query:
    language = language_of(query.text) if query.kind in FAQ else None
    return Query(
        None if mode == "keywords" else vector_D,
        None if mode == "dense" else query.text,
        prefer=None if language is None else preference(language),
        typing=mode != "dense" and query.kind in UNFINISHED,
    )


def _rank(query: TypedQuery, matches: Sequence[Match]) -> int:
    """The place of the first right document; one more than are looked at if there is none."""
    places = (place for place, match in enumerate(matches, 1) if match.document.id in query.documents)
    return next(places, DEPTH + 1)


def _count_topics(matches: Sequence[Match], topic_of: dict[str, str]) -> int:
    return len({topic_of[match.document.id] for match in matches if match.document.id in topic_of})


def _measures(rank_Q: Mapping[str, NDArray[np.int64]], rows: NDArray[np.int64]) -> dict[str, float]:
    """What is measured of some queries. rank_Q: of the right document in each mode."""
    is_first_Q = {mode: (ranks[rows] == 1).astype(float) for mode, ranks in rank_Q.items()}
    better = max(("dense", "keywords"), key=lambda mode: is_first_Q[mode].mean())
    values = {
        **is_first_Q,
        "hybrid_top3": (rank_Q["hybrid"][rows] <= 3).astype(float),
        "gain": is_first_Q["hybrid"] - is_first_Q[better],
    }
    every = {"all": np.arange(len(rows))}
    bounds = intervals(values["gain"], every, "gain")
    return {
        "queries": float(len(rows)),
        **{name: means(value_Q, every)["all"] for name, value_Q in values.items()},
        **{name: bound["all"] for name, bound in bounds.items()},
    }
