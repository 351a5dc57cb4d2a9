"""Approximate inner-product search: inverted lists of 8-bit vectors. Knows rows and vectors; knows no text and no SQL.

N documents, D dims, Q queries
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from service.index.base import Addition, Hits, Rows, Vectors, candidates, with_ties
from service.index.faiss_search import search_index, selector_of

ROWS_A_LIST = 40  # that k-means sees
ITERATIONS = 10  # of k-means


@dataclass(frozen=True)
class Tuning:
    """How an index was made. recall: of the 10 nearest, measured when it was built; exact search is 1."""

    built_rows: int
    probes: int
    recall: float


class InvertedIndex:
    """`IndexIVFScalarQuantizer`: the residual to a list's centroid in 8 bits a dimension.

    Searches may run at once; a change needs the index for itself. A search visits `probes` lists; with a filter as many
    more as fewer rows match, so that it scans about as many matching rows, and all lists before it returns too few.
    """

    backend = "faiss-ivf-sq8"
    is_exact = False

    def __init__(self, index: Any, tuning: Tuning) -> None:
        """index: of FAISS, trained."""
        self._index = index
        self.tuning = tuning
        self._largest_row = int(self.rows().max(initial=-1))  # rows above it are new: no pass to remove them first

    @classmethod
    def trained(cls, sample_ND: Vectors, *, rows: int) -> Self:
        """An empty index for about so many rows. Takes seconds; on one thread, so that requests have the others."""
        import faiss

        faiss.omp_set_num_threads(1)  # of this thread alone
        dim = sample_ND.shape[1]
        lists = lists_for(rows)
        index = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(dim), dim, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.cp.niter = ITERATIONS
        index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = ROWS_A_LIST, 1  # 1: it prints below it
        index.train(np.ascontiguousarray(sample_ND, np.float32))
        return cls(index, Tuning(rows, lists, 1.0))

    @classmethod
    def read(cls, path: Path, facts: dict[str, Any]) -> Self:
        """What `write` left; `facts` as it gave them. Its lists have no room to spare: it is as small as it can be.

        Raises: RuntimeError: FAISS cannot read the file.  TypeError: the facts are others.
        """
        import faiss

        return cls(faiss.read_index(str(path)), Tuning(**facts))

    def write(self, path: Path) -> None:
        """Leave a file that `read` takes.

        Raises: OSError: there is no room.
        """
        import faiss

        try:
            faiss.write_index(self._index, str(path))
        except RuntimeError as exc:
            raise OSError(f"FAISS cannot write {path.name}") from exc

    @property
    def facts(self) -> dict[str, Any]:
        """What `read` needs beside the file."""
        return asdict(self.tuning)

    @property
    def recall(self) -> float:
        """Of the 10 nearest, when the index was built."""
        return self.tuning.recall

    def rows(self) -> Rows:
        """Every row number, in no order."""
        import faiss

        lists = self._index.invlists
        sizes = [lists.list_size(number) for number in range(self.lists)]
        held = [faiss.rev_swig_ptr(lists.get_ids(number), size).copy() for number, size in enumerate(sizes) if size]
        return np.concatenate([np.empty(0, np.int64), *held])

    @property
    def lists(self) -> int:
        """How many lists there are."""
        return int(self._index.nlist)

    @property
    def size_bytes(self) -> int:
        """Vectors, row numbers and centroids, without the lists' room to spare."""
        return len(self) * self.row_bytes + self.lists * int(self._index.d) * 4

    @property
    def row_bytes(self) -> int:
        """A vector and its row number."""
        return int(self._index.code_size) + 8

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def growth_bytes(self, count: int) -> int:
        """Memory that adding so many rows takes at its peak: a full list doubles."""
        return 2 * count * self.row_bytes

    def prepare(self, rows: Sequence[int], vectors_ND: Vectors) -> Addition:
        """Choose lists and round the residuals, which is nearly all of the work."""
        vectors_ND = np.ascontiguousarray(vectors_ND, np.float32)
        return Addition(np.asarray(rows, np.int64), vectors_ND, self._index.sa_encode(vectors_ND))

    def replace(self, addition: Addition) -> None:
        """Add rows, or give existing rows a new vector."""
        if len(addition.rows):
            self.remove(addition.rows.tolist())
            self._index.add_sa_codes(addition.prepared, addition.rows)
            self._largest_row = max(self._largest_row, int(addition.rows.max()))

    def remove(self, rows: Sequence[int]) -> None:
        """Forget rows; unknown ones are ignored. One pass over the row numbers, whatever the number of rows."""
        known = [row for row in rows if row <= self._largest_row]
        if known:
            self._index.remove_ids(np.asarray(known, np.int64))

    def search(self, vector_D: Vectors, *, top_k: int, among: Rows | None = None) -> Hits:
        """The best `top_k` rows found and every row that ties with the last of them, among the given rows or all."""
        available = len(self) if among is None else min(len(self), len(among))
        if not available:
            return Hits.none()
        selector = None if among is None else selector_of(among)
        probes = min(self.lists, -(-self.tuning.probes * len(self) // available))
        wanted = min(top_k, available)

        def visiting(lists: int) -> Hits:
            return with_ties(
                lambda count: self._search(vector_D, count, lists, selector), wanted=wanted, available=available
            )

        hits = visiting(probes)
        return hits if len(hits.rows) >= wanted or probes == self.lists else visiting(self.lists)

    def tune(self, query_QD: Vectors, nearest_QK: Rows, *, target: float) -> None:
        """Visit as few lists as find `target` of the nearest rows, to an eighth of their number.

        Args: nearest_QK: the K nearest of each query, by exact search. One is found if it is among the candidates.
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
        count = candidates(nearest_QK.shape[1])
        found = [
            len(np.intersect1d(self._search(query_D, count, probes, None).rows, nearest_K))
            for query_D, nearest_K in zip(query_QD, nearest_QK, strict=True)
        ]
        return sum(found) / max(1, nearest_QK.size)

    def _search(self, vector_D: Vectors, count: int, probes: int, selector: Any) -> Hits:
        import faiss

        parameters = faiss.SearchParametersIVF(nprobe=probes, sel=selector)  # type: ignore[call-arg]  # as in trained
        return search_index(self._index, vector_D, count, parameters)


def lists_for(rows: int) -> int:
    """The power of two nearest to twice the square root of the rows."""
    return int(2 ** np.round(np.log2(2 * np.sqrt(max(1, rows)))))
