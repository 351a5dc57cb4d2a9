import os
from pathlib import Path

import faiss
import numpy as np
import pytest

from service.errors import InvalidInput, StartError
from service.offline.vector_import import norms, open_vector_file, units

DIM = 4
ROWS_ND = np.random.default_rng(0).standard_normal((5, DIM)).astype(np.float32)


def write_npy(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def write_faiss(path: Path, index: faiss.Index) -> Path:
    faiss.write_index(index, str(path))
    return path


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_npy_gives_the_rows_that_were_saved(tmp_path: Path, dtype: str, order: str) -> None:
    saved_ND = np.asarray(ROWS_ND, dtype=dtype, order=order)  # type: ignore[call-overload]
    file = open_vector_file(write_npy(tmp_path / "a.npy", saved_ND))
    assert (file.count, file.dim) == (5, DIM)
    assert file.rows(1, 4).dtype == np.float32
    assert np.array_equal(file.rows(1, 4), saved_ND[1:4].astype(np.float32))


@pytest.mark.parametrize("kind", [faiss.IndexFlatIP, faiss.IndexFlatL2])
@pytest.mark.parametrize("wrapper", [None, faiss.IndexIDMap, faiss.IndexIDMap2])
def test_flat_index_gives_rows_in_order_of_addition(
    tmp_path: Path, kind: type[faiss.Index], wrapper: type[faiss.Index] | None
) -> None:
    index = kind(DIM)
    if wrapper is None:
        index.add(ROWS_ND)
    else:
        flat, index = index, wrapper(index)
        index.add_with_ids(ROWS_ND, np.array([9, 7, 5, 3, 1]))
        assert flat.ntotal == 5
    file = open_vector_file(write_faiss(tmp_path / "a", index))
    assert (file.count, file.dim) == (5, DIM)
    assert np.array_equal(file.rows(0, 5), ROWS_ND)
    assert np.array_equal(file.rows(2, 3), ROWS_ND[2:3])


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(3, np.float32), "holds an array of 1 axes; vectors need 2"),
        (np.zeros((2, 3)), "holds float64; vectors must be float32 or float16"),
        (np.zeros((2, 3), np.int8), "holds int8; vectors must be"),
        (np.array([[{}]], object), "is damaged, or not a .npy file of numbers"),
    ],
)
def test_an_array_of_another_kind_is_refused(tmp_path: Path, array: np.ndarray, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        open_vector_file(write_npy(tmp_path / "a.npy", array))


def test_only_flat_indexes_and_npy_files_are_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds an IndexHNSWFlat; only IndexFlatIP and IndexFlatL2"):
        open_vector_file(write_faiss(tmp_path / "a", faiss.index_factory(DIM, "HNSW8")))
    with pytest.raises(InvalidInput, match="holds an IndexFlat; only"):
        open_vector_file(write_faiss(tmp_path / "a", faiss.IndexFlat(DIM, faiss.METRIC_L1)))
    whole = write_npy(tmp_path / "a.npy", ROWS_ND).read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-1])
    with pytest.raises(InvalidInput, match="damaged"):
        open_vector_file(tmp_path / "a.npy")
    (tmp_path / "a.npy").write_bytes(b"id,text\n")
    with pytest.raises(InvalidInput, match=r"neither a \.npy file nor a FAISS index"):
        open_vector_file(tmp_path / "a.npy")
    for path, sentence in ((tmp_path, "is not a regular file"), (tmp_path / "none", "No such file")):
        with pytest.raises(StartError, match=sentence):
            open_vector_file(path)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), ",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (10" + "0" * 30 + ", 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }",
        "{'descr': '<f4', 1: False, 'shape': (2, 4), }",
    ],
)
def test_a_damaged_header_is_refused(tmp_path: Path, header: str) -> None:
    start = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little")
    (tmp_path / "a.npy").write_bytes(start + header.encode() + b"\n" + bytes(32))
    with pytest.raises(InvalidInput, match="is damaged, or not a"):
        open_vector_file(tmp_path / "a.npy")


def test_a_name_that_faiss_cannot_open_is_refused(tmp_path: Path) -> None:
    path = write_faiss(tmp_path / "a", faiss.IndexFlatIP(DIM)).rename(tmp_path / os.fsdecode(b"\xff"))
    with pytest.raises(InvalidInput, match="whose name is not UTF-8"):
        open_vector_file(path)


def test_vectors_are_scaled_and_unit_ones_stay_unchanged() -> None:
    rows_ND = np.array([[3, 0, 4, 0], [1e30, 1e30, 0, 0], [1e-40, 0, 0, 0]], np.float32)
    expected_ND = np.array([[0.6, 0, 0.8, 0], [0.5**0.5, 0.5**0.5, 0, 0], [1, 0, 0, 0]], np.float32)
    assert norms(rows_ND[:1]) == pytest.approx(5)
    assert np.allclose(units(rows_ND), expected_ND, atol=1e-7)
    unit_ND = units(ROWS_ND)
    assert np.array_equal(units(unit_ND), unit_ND)
