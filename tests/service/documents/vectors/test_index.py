import numpy as np

from service.documents.vectors.index import FaissIndex
from tests.service.documents.stores import DIM, EAST, unit


def test_rows_may_come_in_any_order() -> None:
    index = FaissIndex(DIM)
    for rows, vectors in (
        ([5], [EAST]),
        ([2], [unit(0, 1, 0, 0)]),
        ([2, 5], [unit(0, 0, 1, 0), unit(0, 0, 0, 1)]),
    ):
        index.replace(index.prepare(rows, np.stack(vectors)))
    assert len(index) == 2
    assert index.search(unit(0, 0, 0, 1), top_k=1).rows.tolist() == [5]
    index.remove([2, 3, 9])
    assert len(index) == 1


def test_filter_over_sparse_rows_takes_little_memory() -> None:
    rows = [10**12 * number for number in range(1, 3000)]
    index = FaissIndex(DIM)
    index.replace(index.prepare(rows, np.tile(EAST, (len(rows), 1))))
    hits = index.search(EAST, top_k=1, among=np.asarray(rows[:2000]))
    assert set(hits.rows) == set(rows[:2000])
