"""The finished corpus: parallel pairs on disk, memory-mapped.

A corpus's folder holds
    texts.bin, texts.npy           each distinct text once, UTF-8, concatenated, English first; its offset, int64
    english.npy, other.npy         int32, the text of each pair's two sides
    language.npy, source.npy       uint16, codes of each pair
    corpus.json                    the names of the codes, and the number of English texts
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from training.errors import CorpusError
from training.system.arrays import map_array

ITERATION_CHUNK = 10_000  # texts


class TextStore(Sequence[str]):
    """Texts on disk, read by index or slice.

    Args: offsets: text i is bytes offsets[i] to offsets[i + 1] of the file.
    """

    def __init__(self, path: Path, offsets: NDArray[np.int64]) -> None:
        self._offsets = offsets
        with path.open("rb") as file:  # an empty file cannot be mapped
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if offsets[-1] else b""

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return self._block(start, max(start, stop)) if step == 1 else [self[i] for i in range(start, stop, step)]
        if not -len(self) <= index < len(self):
            raise IndexError(f"text {index} of {len(self)}")
        index %= len(self)
        return self._bytes[self._offsets[index] : self._offsets[index + 1]].decode()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), ITERATION_CHUNK):
            yield from self[start : start + ITERATION_CHUNK]

    def _block(self, start: int, stop: int) -> list[str]:
        offsets = self._offsets[start : stop + 1].tolist()
        block = self._bytes[offsets[0] : offsets[-1]]
        return [block[left - offsets[0] : right - offsets[0]].decode() for left, right in pairwise(offsets)]


@dataclass(frozen=True)
class Corpus:
    """Parallel pairs. `english` and `other` hold indices into `texts`; English texts come first."""

    texts: Sequence[str]
    english_count: int
    english: NDArray[np.int32]
    other: NDArray[np.int32]
    languages: list[str]
    sources: list[str]
    language_code: NDArray[np.uint16]  # index into `languages`
    source_code: NDArray[np.uint16]  # index into `sources`

    def __len__(self) -> int:
        return len(self.english)

    def count(self, sources: list[str] | None = None) -> int:
        """The number of pairs; with `sources`, of these alone."""
        return int(self.is_of(sources).sum())

    def is_of(self, sources: list[str] | None) -> NDArray[np.bool_]:
        """Which pairs are of these sources: (pairs,) bool; None: all."""
        if sources is None:
            return np.ones(len(self), dtype=np.bool_)
        return np.isin(self.source_code, [code for code, name in enumerate(self.sources) if name in sources])

    def texts_in(self, language: str) -> NDArray[np.int32]:
        """Distinct texts in a language, `en` included, in ascending order."""
        if language == "en":
            return np.unique(self.english)
        return np.unique(self.other[self.language_code == self.languages.index(language)])

    @classmethod
    def load(cls, folder: Path) -> Corpus:
        """Memory-map the folder of a corpus step.

        Raises: CorpusError: the folder holds no corpus.
        """
        try:
            names = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            arrays = {name: map_array(folder / f"{name}.npy") for name in ARRAYS}
        except FileNotFoundError as exc:
            raise CorpusError(f"{folder} holds no corpus: {exc.filename} is missing") from exc
        return cls(
            texts=TextStore(folder / "texts.bin", arrays["texts"]),
            english_count=names["english_count"],
            english=arrays["english"],
            other=arrays["other"],
            languages=names["languages"],
            sources=names["sources"],
            language_code=arrays["language"],
            source_code=arrays["source"],
        )


ARRAYS = ("texts", "english", "other", "language", "source")
