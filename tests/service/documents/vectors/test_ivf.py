from pathlib import Path

import numpy as np
import pytest

from service.documents.vectors.index import FaissIndex, candidates
from service.documents.vectors.ivf import InvertedIndex, lists_for

DIM, COUNT = 16, 2000


def clustered(count: int, clusters: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors in clusters, as those of sentences are, and the clusters they are in."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((clusters, DIM))
    labels = generator.integers(clusters, size=count)
    rows = centres[labels] + 0.6 * generator.standard_normal((count, DIM))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), labels


def built(vectors: np.ndarray) -> InvertedIndex:
    """Row i + 1 has vector i."""
    index = InvertedIndex.trained(vectors, rows=len(vectors))
    index.replace(index.prepare(list(range(1, len(vectors) + 1)), vectors))
    return index


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return clustered(COUNT, 40, seed=0)[0]


@pytest.fixture
def index(vectors: np.ndarray) -> InvertedIndex:
    """Six lists of the 128 are visited."""
    return built(vectors)


def nearest(vectors: np.ndarray, query: np.ndarray, count: int, among: np.ndarray | None = None) -> list[int]:
    rows = np.arange(1, len(vectors) + 1) if among is None else among
    scores = vectors[rows - 1] @ query
    return list(rows[np.argsort(-scores, kind="stable")][:count])


def test_lists_grow_with_the_square_root() -> None:
    assert [lists_for(rows) for rows in (1, 10_000, 100_000, 1_000_000)] == [1, 256, 512, 2048]
    assert all(lists_for(rows) <= rows for rows in range(1, 50))


def test_all_lists_give_nearly_what_exact_search_gives(index: InvertedIndex, vectors: np.ndarray) -> None:
    found = [
        set(index.search(vectors[row], top_k=10).rows) & set(nearest(vectors, vectors[row], 10)) for row in range(50)
    ]
    assert np.mean([len(rows) for rows in found]) >= 9.5  # eight bits a dimension


def test_tuning_visits_as_few_lists_as_the_target_needs(index: InvertedIndex, vectors: np.ndarray) -> None:
    queries = vectors[:100]
    near = np.stack([nearest(vectors, query, 10) for query in queries])
    index.tune(queries, near, target=0.9)
    few = index.tuning
    assert 0.9 <= few.recall <= 1
    assert few.probes < index.lists
    found = [
        len(set(index.search(query, top_k=candidates(10)).rows) & set(rows)) / 10
        for query, rows in zip(queries, near, strict=True)
    ]
    assert np.mean(found) == pytest.approx(few.recall, abs=0.02)
    index.tune(queries, near, target=0.99)
    assert index.tuning.probes > few.probes


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.3, 1.0])
def test_a_filter_finds_top_k_whenever_so_many_match(index: InvertedIndex, vectors: np.ndarray, share: float) -> None:
    index.tuning = type(index.tuning)(built_rows=COUNT, probes=2, recall=0.5)
    generator = np.random.default_rng(1)
    among = np.sort(generator.permutation(COUNT)[: max(1, round(share * COUNT))]) + 1
    for row in range(0, 200, 20):
        hits = index.search(vectors[row], top_k=10, among=among)
        assert len(hits.rows) >= min(10, len(among))
        assert set(hits.rows) <= set(among)


def test_filter_finds_matches_far_from_the_query() -> None:
    """The rows that match lie in other lists than those near the query, as another customer's documents do."""
    many, labels = clustered(20_000, 100, seed=2)
    index = built(many)
    index.tuning = type(index.tuning)(built_rows=len(many), probes=4, recall=0.98)
    among = np.flatnonzero(labels >= 50) + 1
    queries = np.flatnonzero(labels < 50)[:100]
    found = []
    for row in queries:
        hits = index.search(many[row], top_k=candidates(10), among=among)
        found.append(len(set(hits.rows) & set(nearest(many, many[row], 10, among))))
    assert np.mean(found) > 9.8
    assert min(found) >= 7


def test_filters_find_moved_and_reloaded_rows(index: InvertedIndex, vectors: np.ndarray, tmp_path: Path) -> None:
    index.tuning = type(index.tuning)(built_rows=COUNT, probes=1, recall=0.5)
    index.replace(index.prepare([1, 5000], vectors[[700, 701]]))  # one moves to another list, one is new
    index.write(tmp_path / "index")
    again = InvertedIndex.read(tmp_path / "index", index.facts)
    for copy in (index, again):
        for row, vector in ((1, vectors[700]), (5000, vectors[701])):
            assert copy.search(vector, top_k=1, among=np.asarray([row, row + 1])).rows.tolist() == [row]
            assert copy.search(-vector, top_k=1, among=np.asarray([row])).rows.tolist() == [row]
    assert (again.tuning, len(again)) == (index.tuning, len(index))
    for vector in vectors[:20]:
        ours, theirs = index.search(vector, top_k=5), again.search(vector, top_k=5)
        np.testing.assert_array_equal(ours.rows, theirs.rows)
        np.testing.assert_array_equal(ours.scores, theirs.scores)


def test_a_disk_that_is_full_is_noticed(index: InvertedIndex) -> None:
    with pytest.raises(OSError, match="No space left"):
        index.write(Path("/dev/full"))


def test_ties_with_the_last_are_all_found(vectors: np.ndarray) -> None:
    for index in (InvertedIndex.trained(vectors, rows=COUNT), FaissIndex(DIM)):
        index.replace(index.prepare(list(range(30)), np.repeat(vectors[:1], 30, axis=0)))
        assert sorted(index.search(vectors[0], top_k=3).rows) == list(range(30))
        assert len(index.search(vectors[0], top_k=0).rows) == 0


def test_changes_take_effect_at_once(index: InvertedIndex, vectors: np.ndarray) -> None:
    index.remove([6, 999_999])
    assert 6 not in index.search(vectors[5], top_k=5).rows
    index.replace(index.prepare([7], vectors[5][None]))
    assert index.search(vectors[5], top_k=1).rows.tolist() == [7]
    assert len(index) == COUNT - 1
    assert sorted(index.rows()) == [row for row in range(1, COUNT + 1) if row != 6]


def test_a_vector_takes_a_byte_a_dimension(index: InvertedIndex) -> None:
    assert index.row_bytes == DIM + 8 + 2
    assert index.size_bytes == COUNT * (DIM + 10) + index.lists * DIM * 4


def test_rows_that_come_and_go_take_no_more_memory(index: InvertedIndex, vectors: np.ndarray) -> None:
    generator, before, tables = np.random.default_rng(5), index.size_bytes, list[int]()
    for first in range(COUNT + 1, 300_000, 1_000):
        moved = [row for row in index.rows().tolist() if row // 64 % 7 == first // 1_000 % 7]  # all of a page
        rows = [*moved, *range(first, first + 200)]
        index.replace(index.prepare(rows, vectors[generator.integers(COUNT, size=len(rows))]))
        index.remove(generator.permutation([row for row in index.rows().tolist() if row > 1])[:200].tolist())
        for number, held in index._rows_by_list():
            assert (index._list_of[index._places(held)] == number).all()
        tables.append(index._list_of.nbytes)
    assert (len(index), index.size_bytes) == (COUNT, before)
    assert max(tables) < 50_000
