import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from training.evaluation import vectors
from training.evaluation.vectors import cosine_chunks, nearest, unit_rows


@pytest.mark.parametrize("k", [1, 4, 60])
def test_the_nearest_are_those_of_faiss(monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    monkeypatch.setattr(vectors, "CHUNK_SCORES", 1200)  # 20 rows at a time
    generator = np.random.default_rng(0)
    queries, candidates = (generator.standard_normal((rows, 16)).astype(np.float32) for rows in (50, 60))
    index = faiss.IndexFlatIP(16)
    index.add(unit_rows(candidates))
    expected_scores, expected = index.search(unit_rows(queries), k)
    scores, found = nearest(queries, candidates, k)
    assert (found == expected).all()
    assert scores == pytest.approx(expected_scores, abs=1e-6)


@given(arrays(np.int8, st.tuples(st.integers(1, 80), st.just(2)), elements=st.integers(-2, 2)), st.integers(1, 12))
def test_the_nearest_are_a_stable_sort_even_where_many_are_equal(candidates: np.ndarray, k: int) -> None:
    query = np.array([[1, 2]], dtype=np.float32)
    ((_, cosine),) = cosine_chunks(query, candidates.astype(np.float32))
    expected = np.argsort(-cosine[0], kind="stable")[:k]
    assert nearest(query, candidates.astype(np.float32), k)[1][0].tolist() == expected.tolist()
