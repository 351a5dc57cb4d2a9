"""Reads rows of a file of vectors computed elsewhere: .npy or a flat FAISS index.

N vectors, D dims
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.documents.protocol import Vectors
from service.errors import InvalidInput, StartError

NPY_START = b"\x93NUMPY"
UNIT_TOLERANCE = 1e-6  # rounding of norm 1 in float32: such a vector is stored unchanged


@dataclass(frozen=True)
class VectorFile:
    """An open file of `count` vectors of `dim` dimensions, read on demand.

    rows: (start, stop) -> (N, D) float32, unchanged from the file.
    """

    path: Path
    count: int
    dim: int
    rows: Callable[[int, int], Vectors]


def open_vector_file(path: Path) -> VectorFile:
    """Open a .npy of float32 or float16, (N, D), or a flat FAISS index, told apart by the first bytes.

    The ids of an IndexIDMap are ignored: vectors come in the order in which they were added.

    Raises: StartError: the file cannot be read.  InvalidInput: it is neither format, or has other contents.
    """
    check_plain_file(path)
    try:
        with path.open("rb") as file:
            is_npy = file.read(len(NPY_START)) == NPY_START
    except OSError as exc:
        raise StartError(f"{path} cannot be read ({exc.strerror})") from exc
    return _npy(path) if is_npy else _faiss(path)


def check_plain_file(path: Path) -> None:
    """Raises: StartError: it is a pipe, standard input or a folder."""
    if str(path) == "-" or (path.exists() and not path.is_file()):
        raise StartError(f"{path} is not a regular file, but must be read twice")


def norms(rows_ND: Vectors) -> npt.NDArray[np.float64]:
    """Return the norm of each vector, (N,); not finite if the vector has a number that is not."""
    wide_ND = rows_ND.astype(np.float64)  # squares may overflow float32
    norm_N: npt.NDArray[np.float64] = np.linalg.norm(wide_ND, axis=1)
    return norm_N


def units(rows_ND: Vectors) -> Vectors:
    """Scale vectors to norm 1, (N, D) float32; none may be zero. Those of norm 1 stay unchanged."""
    norm_N = norms(rows_ND)
    norm_N[np.abs(norm_N - 1) <= UNIT_TOLERANCE] = 1
    return (rows_ND / norm_N[:, None]).astype(np.float32)


def _npy(path: Path) -> VectorFile:
    try:
        array_ND = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as exc:
        raise InvalidInput(f"{path} is damaged, or not a .npy file of numbers ({exc})") from exc
    if array_ND.ndim != 2:
        raise InvalidInput(f"{path} holds an array of {array_ND.ndim} axes; vectors need 2 (count x dims)")
    if array_ND.dtype.newbyteorder("=") not in (np.float32, np.float16):
        raise InvalidInput(f"{path} holds {array_ND.dtype.name}; vectors must be float32 or float16")
    count, dim = array_ND.shape
    return VectorFile(path, count, dim, lambda start, stop: array_ND[start:stop].astype(np.float32))


def _faiss(path: Path) -> VectorFile:
    import faiss

    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as exc:
        raise InvalidInput(f"{path} is neither a .npy file nor a FAISS index, or is damaged") from exc
    flat: Any = index
    if isinstance(index, faiss.IndexIDMap):
        flat = faiss.downcast_index(index.index)
        flat.referenced_objects = [index]  # keeps its memory alive
    if type(flat) not in (faiss.IndexFlatIP, faiss.IndexFlatL2):
        raise InvalidInput(
            f"{path} holds an {type(flat).__name__}; only IndexFlatIP and IndexFlatL2 keep vectors unchanged"
        )
    return VectorFile(path, flat.ntotal, flat.d, lambda start, stop: flat.reconstruct_n(start, stop - start))
