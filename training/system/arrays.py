"""Arrays on disk that grow: a .npy file written piece by piece, read back memory-mapped."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray


class ArrayWriter:
    """Appends to a one-dimensional .npy file of unknown length, holding none of it in memory.

    Until it is closed the file says that it holds nothing, so a killed writer leaves an empty array, not a wrong one.
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = path.open("wb")
        self._length = 0
        self._write_header()

    def __len__(self) -> int:
        return self._length

    def append(self, values: NDArray[Any]) -> None:
        """Write `values` after what is there."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self._length += len(values)

    def close(self) -> None:
        """Write the length; the header is padded by numpy so that it fits in place."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()

    def _write_header(self) -> None:
        descr = npy.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self._length,)}
        npy.write_array_header_1_0(self._file, header)


def map_array(path: Path) -> NDArray[Any]:
    """A .npy file, memory-mapped for reading; as a plain array, because numpy's own memmap is slow to index."""
    mapped: NDArray[Any] = np.load(path, mmap_mode="r").view(np.ndarray)
    return mapped
