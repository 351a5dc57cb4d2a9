"""Writes .npy files piece by piece and memory-maps them for reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray


class ArrayWriter:
    """Appends to a one-dimensional .npy file of unknown length, holding none of it in memory.

    Until it is closed its header says length 0, so a killed writer leaves an empty array.
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = path.open("wb")
        self._length = 0
        self._write_header()

    def __len__(self) -> int:
        return self._length

    def append(self, values: NDArray[Any]) -> None:
        """Append `values`."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self._length += len(values)

    def close(self) -> None:
        """Write the final length; numpy pads the header, so it fits in place."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()

    def _write_header(self) -> None:
        descr = npy.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self._length,)}
        npy.write_array_header_1_0(self._file, header)


def map_array(path: Path) -> NDArray[Any]:
    """Memory-map a .npy file for reading, as a plain array: numpy's memmap class is slow to index."""
    mapped: NDArray[Any] = np.load(path, mmap_mode="r").view(np.ndarray)
    return mapped
