"""Builds an inverted index from the document store and tunes it for recall. Takes no locks.

N documents, D dims, Q queries, K nearest
"""

import logging
import time
from collections.abc import Callable

import numpy as np

from service.documents.protocol import Rows, Vectors
from service.documents.store.store import DocumentStore
from service.documents.vectors.ivf import ROWS_A_LIST, InvertedIndex, lists_for

TARGET_RECALL = 0.98  # of the 10 nearest, on queries that resemble searches (docs/guide/search.md)
QUERIES = 256
MIXED = 3  # stored vectors averaged in a query
NEAREST = 10
CHUNK_ROWS = 2048

logger = logging.getLogger(__name__)


class BuildStoppedError(Exception):
    """The build was stopped."""


def build_inverted(store: DocumentStore, *, should_stop: Callable[[], bool] = lambda: False) -> InvertedIndex:
    """Build an index over one state of a non-empty store; call it inside `store.read_transaction()`.

    Memory: the sample, 40 vectors a list, and the index with up to 100% spare capacity.

    Raises: BuildStoppedError.
    """
    started_at = time.monotonic()
    rows = store.passages.numbers()
    generator = np.random.default_rng(0)  # deterministic for the same store
    sample = np.sort(generator.permutation(rows)[: ROWS_A_LIST * lists_for(len(rows))])
    sample_ND = _vectors_of(store, sample)
    index = InvertedIndex.trained(sample_ND, rows=len(rows))
    nearest = _Nearest(_like_searches(sample_ND, generator))
    for added, vectors_ND in store.passages.vectors(batch=CHUNK_ROWS):
        if should_stop():
            raise BuildStoppedError
        index.replace(index.prepare(added, vectors_ND))
        nearest.look_at(np.asarray(added), vectors_ND)
    index.tune(nearest.query_QD, nearest.row_QK, target=TARGET_RECALL)
    logger.info(
        "index built",
        extra={
            "documents": len(index),
            "lists": index.lists,
            "probes": index.tuning.probes,
            "recall": index.tuning.recall,
            "seconds": round(time.monotonic() - started_at, 1),
        },
    )
    return index


def _like_searches(sample_ND: Vectors, generator: np.random.Generator) -> Vectors:
    """Make queries about as near to stored vectors as real searches are: means of three stored vectors.

    Stored vectors themselves would be too easy: among near-duplicates, the nearest are copies in the same list.
    """
    query_QD = sample_ND[generator.integers(len(sample_ND), size=(QUERIES, MIXED))].mean(axis=1)
    norm_Q1 = np.linalg.norm(query_QD, axis=1, keepdims=True)
    unit_QD: Vectors = query_QD / np.maximum(norm_Q1, np.finfo(np.float32).tiny)
    return unit_QD


class _Nearest:
    """The exact nearest rows of some queries, from one pass over all vectors."""

    def __init__(self, query_QD: Vectors) -> None:
        self.query_QD = query_QD
        self.row_QK = np.full((len(query_QD), 0), -1, np.int64)
        self._score_QK = np.zeros((len(query_QD), 0), np.float32)

    def look_at(self, row_N: Rows, vectors_ND: Vectors) -> None:
        """Update the nearest rows with a chunk of vectors."""
        score_QN = np.concatenate([self._score_QK, self.query_QD @ vectors_ND.T], axis=1)
        row_QN = np.concatenate([self.row_QK, np.broadcast_to(row_N, (len(self.query_QD), len(row_N)))], axis=1)
        best_QK = np.argsort(-score_QN, axis=1, kind="stable")[:, :NEAREST]
        self._score_QK = np.take_along_axis(score_QN, best_QK, axis=1)
        self.row_QK = np.take_along_axis(row_QN, best_QK, axis=1)


def _vectors_of(store: DocumentStore, rows: Rows) -> Vectors:
    parts = [store.passages.vectors_of(part.tolist())[1] for part in np.array_split(rows, -(-len(rows) // CHUNK_ROWS))]
    return np.concatenate(parts)
