"""Approximate inner-product search with inverted lists of 8-bit vectors (FAISS IVF), built and tuned for recall.

N documents, D dims, Q queries, K nearest
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from service.documents.document import Rows, Vectors, unit_rows
from service.documents.store.store import Snapshot
from service.documents.vectors.index import Addition, VectorIndex, candidates, selector_of

ROWS_A_LIST = 40  # training vectors per list for k-means
ITERATIONS = 10  # of k-means
FILTERED = 2  # a filtered search scans twice the rows of an unfiltered one: matches may be far from the query
PLACE = np.dtype(np.uint16)  # a row's list
NO_LIST = np.iinfo(PLACE).max
PAGE_BITS = 6
PAGE_ROWS = 1 << PAGE_BITS  # of numbers, which are never reused: a page without rows takes no place
LEAST_FILTERED = 4000  # minimum rows of a filtered search; they take a quarter of a millisecond
TARGET_RECALL = 0.98  # of the 10 nearest, on queries that resemble searches (docs/guide/search.md)
QUERIES = 256
MIXED = 3  # stored vectors averaged in a query
NEAREST = 10
CHUNK_ROWS = 2048

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tuning:
    """How an index was built. recall: of the 10 nearest, measured when it was built."""

    built_rows: int
    probes: int
    recall: float


class InvertedIndex(VectorIndex):
    """`IndexIVFScalarQuantizer`: residuals to a list's centroid, in 8 bits a dimension.

    A search visits the `probes` nearest lists; with a filter, as many as it takes to scan enough matching rows.
    """

    backend = "faiss-ivf-sq8"
    is_exact = False

    def __init__(self, index: Any, tuning: Tuning) -> None:
        """index: a trained FAISS index."""
        super().__init__(index)
        self.tuning = tuning
        self._start_of = np.zeros(1, np.int32)  # of each page of row numbers in `_list_of`; 0: it has no rows
        self._list_of = np.full(PAGE_ROWS, NO_LIST, PLACE)
        self._used = PAGE_ROWS
        for number, rows in self._rows_by_list():
            self._place(rows, np.full(len(rows), number))

    @classmethod
    def trained(cls, sample_ND: Vectors, *, rows: int) -> Self:
        """Train an empty index for about `rows` rows. Takes seconds, on one thread: the others serve requests."""
        import faiss

        faiss.omp_set_num_threads(1)  # applies to this thread only
        dim = sample_ND.shape[1]
        lists = lists_for(rows)
        index = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(dim), dim, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.cp.niter = ITERATIONS
        index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = ROWS_A_LIST, 1  # 1: no warnings
        index.train(np.ascontiguousarray(sample_ND, np.float32))
        return cls(index, Tuning(rows, lists, 1.0))

    @classmethod
    def read(cls, path: Path, facts: dict[str, Any]) -> Self:
        """Read an index from `write`'s file and its `facts`. Its lists have no spare capacity.

        Raises: RuntimeError: FAISS cannot read the file.  TypeError: the facts do not fit `Tuning`.
        """
        import faiss

        return cls(faiss.read_index(str(path)), Tuning(**facts))

    def write(self, path: Path) -> None:
        """Write a file for `read`.

        Raises: OSError: the disk is full.
        """
        import faiss

        with path.open("wb") as file:  # FAISS's own writer does not notice an error on close
            faiss.write_index(self._index, faiss.PyCallbackIOWriter(file.write))  # type: ignore[attr-defined]  # as in trained

    @property
    def facts(self) -> dict[str, Any]:
        """What `read` needs in addition to the file."""
        return asdict(self.tuning)

    @property
    def recall(self) -> float:
        return self.tuning.recall

    def rows(self) -> Rows:
        """Return every row number, unordered."""
        return np.concatenate([np.empty(0, np.int64), *(rows for _, rows in self._rows_by_list())])

    @property
    def lists(self) -> int:
        """The number of lists."""
        return int(self._index.nlist)

    @property
    def size_bytes(self) -> int:
        return len(self) * self.row_bytes + self.lists * 4 * int(self._index.d)

    @property
    def row_bytes(self) -> int:
        return int(self._index.d) + 8 + PLACE.itemsize  # a vector, its row number and its list

    def growth_bytes(self, count: int) -> int:
        return 2 * count * self.row_bytes  # a full list doubles

    def prepare(self, rows: Sequence[int], vectors_ND: Vectors) -> Addition:
        """Assign lists and quantise the residuals, which is most of the work."""
        vectors_ND = np.ascontiguousarray(vectors_ND, np.float32)
        return Addition(np.asarray(rows, np.int64), vectors_ND, self._index.sa_encode(vectors_ND))

    def _add(self, addition: Addition) -> None:
        self._index.add_sa_codes(addition.prepared, addition.rows)
        width = self._index.coarse_code_size()  # a code begins with its list, little-endian
        self._place(addition.rows, addition.prepared[:, :width] @ (1 << 8 * np.arange(width)))

    def _remove(self, rows: Rows) -> None:
        super()._remove(rows)
        self._list_of[self._places(rows)] = NO_LIST

    def _parameters(self, vector_D: Vectors, wanted: int, among: Rows | None) -> Iterator[Any]:
        """Visit all lists if those that should be enough lack rows."""
        selector = None if among is None else selector_of(among)
        probes = self.tuning.probes if among is None else self._probes_among(vector_D, among, wanted)
        for lists in dict.fromkeys([probes, self.lists]):
            yield _visiting(lists, selector)

    def _probes_among(self, vector_D: Vectors, among: Rows, wanted: int) -> int:
        """Return how many lists, nearest first, it takes to cover enough of these rows."""
        held = among[among <= self._largest_row]
        in_list = np.bincount(self._list_of.take(self._places(held)), minlength=self.lists)[: self.lists]
        _, nearest_1L = self._index.quantizer.search(np.ascontiguousarray(vector_D, np.float32)[None], self.lists)
        enough = max(wanted, LEAST_FILTERED, FILTERED * self.tuning.probes * len(self) / self.lists)
        return min(self.lists, int(np.searchsorted(np.cumsum(in_list[nearest_1L[0]]), min(enough, len(among)))) + 1)

    def tune(self, query_QD: Vectors, nearest_QK: Rows, *, target: float) -> None:
        """Set `probes` to the fewest lists that reach the `target` recall, within one eighth.

        Args: nearest_QK: the K nearest of each query, by exact search. A row counts as found if it is a candidate.
        """
        too_few, probes = 0, 1
        while (recall := self._recall(query_QD, nearest_QK, probes)) < target and probes < self.lists:
            too_few, probes = probes, min(2 * probes, self.lists)
        while probes - too_few > max(1, probes // 8) and recall >= target:
            middle = (too_few + probes) // 2
            if (found := self._recall(query_QD, nearest_QK, middle)) >= target:
                probes, recall = middle, found
            else:
                too_few = middle
        self.tuning = Tuning(self.tuning.built_rows, probes, round(recall, 4))

    def _recall(self, query_QD: Vectors, nearest_QK: Rows, probes: int) -> float:
        count, parameters = candidates(nearest_QK.shape[1]), _visiting(probes)
        found = [
            len(np.intersect1d(self._best(query_D, count, parameters).rows, nearest_K))
            for query_D, nearest_K in zip(query_QD, nearest_QK, strict=True)
        ]
        return sum(found) / max(1, nearest_QK.size)

    def _rows_by_list(self) -> Iterator[tuple[int, Rows]]:
        import faiss

        lists = self._index.invlists
        for number in range(self.lists):
            if size := lists.list_size(number):
                yield number, faiss.rev_swig_ptr(lists.get_ids(number), size).copy()

    def _place(self, rows: Rows, lists_N: npt.NDArray[np.int64]) -> None:
        """Record the lists of rows that are in the index."""
        self._largest_row = max(self._largest_row, int(rows.max()))
        pages = np.unique(rows >> PAGE_BITS)
        if (missing := int(pages[-1]) + 1 - len(self._start_of)) > 0:
            self._start_of = np.append(self._start_of, np.zeros(max(missing, len(self._start_of) // 2), np.int32))
        if self._used + len(pages) * PAGE_ROWS > len(self._list_of):
            self._drop_pages(len(pages))
        new = pages[self._start_of[pages] == 0]
        self._start_of[new] = self._used + PAGE_ROWS * np.arange(len(new))
        self._used += PAGE_ROWS * len(new)
        self._list_of[self._places(rows)] = lists_N

    def _drop_pages(self, pages: int) -> None:
        """Drop the pages without rows, and make room for so many others."""
        lists_PR = self._list_of.reshape(-1, PAGE_ROWS)
        has_rows = (lists_PR != NO_LIST).any(axis=1)
        self._start_of = (PAGE_ROWS * np.cumsum(has_rows) * has_rows).astype(np.int32)[self._start_of // PAGE_ROWS]
        self._used = PAGE_ROWS * (1 + int(has_rows.sum()))
        room = max(pages * PAGE_ROWS, self._used // (2 * PAGE_ROWS) * PAGE_ROWS)
        self._list_of = np.concatenate([lists_PR[0], lists_PR[has_rows].ravel(), np.full(room, NO_LIST, PLACE)])

    def _places(self, rows: Rows) -> Rows:
        places: Rows = self._start_of.take(rows >> PAGE_BITS) + (rows & PAGE_ROWS - 1)
        return places


def _visiting(probes: int, selector: Any = None) -> Any:
    """Return FAISS's parameters of a search in the `probes` nearest lists."""
    import faiss

    return faiss.SearchParametersIVF(nprobe=probes, sel=selector)  # type: ignore[call-arg]  # as in trained


def expected_bytes(rows: int, *, dim: int) -> int:
    """The `size_bytes` of an index built of so many rows: vectors, row numbers, their lists and centroids."""
    return rows * (dim + 8 + PLACE.itemsize) + lists_for(rows) * 4 * dim


def lists_for(rows: int) -> int:
    """Return the power of two nearest to 2 x sqrt(rows), at most `rows`."""
    return int(min(max(1, rows), 2 ** np.round(np.log2(2 * np.sqrt(max(1, rows))))))


class BuildStoppedError(Exception):
    """The build was stopped."""


def build_inverted(snapshot: Snapshot, *, should_stop: Callable[[], bool] = lambda: False) -> InvertedIndex:
    """Build an index over one state of a collection that is not empty.

    Memory: the sample, 40 vectors a list, and the index with up to 100% spare capacity.

    Raises: BuildStoppedError.
    """
    started_at = time.monotonic()
    rows = snapshot.passages()
    generator = np.random.default_rng(0)  # deterministic for the same store
    sample = np.sort(generator.permutation(rows)[: ROWS_A_LIST * lists_for(len(rows))])
    parts = [snapshot.vectors_of(part.tolist())[1] for part in np.array_split(sample, -(-len(sample) // CHUNK_ROWS))]
    sample_ND = np.concatenate(parts)
    index = InvertedIndex.trained(sample_ND, rows=len(rows))
    query_QD = _like_searches(sample_ND, generator)
    row_QK, score_QK = np.empty((QUERIES, 0), np.int64), np.empty((QUERIES, 0), np.float32)
    for added, vectors_ND in snapshot.vectors(batch=CHUNK_ROWS):
        if should_stop():
            raise BuildStoppedError
        index.replace(index.prepare(added, vectors_ND))
        row_QN = np.concatenate([row_QK, np.tile(np.asarray(added), (QUERIES, 1))], axis=1)
        score_QN = np.concatenate([score_QK, query_QD @ vectors_ND.T], axis=1)
        best_QK = np.argsort(-score_QN, axis=1, kind="stable")[:, :NEAREST]
        row_QK = np.take_along_axis(row_QN, best_QK, axis=1)
        score_QK = np.take_along_axis(score_QN, best_QK, axis=1)
    index.tune(query_QD, row_QK, target=TARGET_RECALL)
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
    return unit_rows(sample_ND[generator.integers(len(sample_ND), size=(QUERIES, MIXED))].mean(axis=1))
