"""The finished corpus: parallel pairs on disk, written batch by batch and memory-mapped.

A corpus's folder holds
    texts.bin, texts.npy           each distinct text once, UTF-8, concatenated, English first; its offset, int64
    english.npy, other.npy         int32, the text of each pair's two sides
    language.npy, source.npy       uint16, codes of each pair
    corpus.json                    the names of the codes, and the number of English texts
"""

from __future__ import annotations

import json
import mmap
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from training.corpora.hashes import HashIndex, hash_keys
from training.errors import CorpusError
from training.system.arrays import ArrayWriter, map_array
from training.system.files import write_json_atomically

ITERATION_CHUNK = 10_000  # texts
SHIFT_CHUNK = 1 << 20  # indices
ARRAYS = ("texts", "english", "other", "language", "source")


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
        """Return the number of pairs; with `sources`, of these alone."""
        return int(self.is_of(sources).sum())

    def is_of(self, sources: list[str] | None) -> NDArray[np.bool_]:
        """Return which pairs are of these sources: (pairs,) bool; None: all."""
        if sources is None:
            return np.ones(len(self), dtype=np.bool_)
        return np.isin(self.source_code, [code for code, name in enumerate(self.sources) if name in sources])

    def texts_in(self, language: str) -> NDArray[np.int32]:
        """Return the distinct texts in a language, `en` included, in ascending order."""
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


class _TextWriter:
    """One side of the corpus: distinct texts concatenated, where each ends, and the text of each pair."""

    def __init__(self, folder: Path, side: str, stack: ExitStack) -> None:
        self.index = HashIndex()
        self._bytes = stack.enter_context((folder / f".{side}.bin").open("wb"))
        self._ends = stack.enter_context(ArrayWriter(folder / f".{side}-ends.npy", np.int64))
        self._pairs = stack.enter_context(ArrayWriter(folder / f".{side}.npy", np.int32))
        self._size = 0

    def add(self, texts: Sequence[str]) -> None:
        numbers, is_new = self.index.add(hash_keys(texts))
        encoded = [text.encode() for text, new in zip(texts, is_new.tolist(), strict=True) if new]
        self._bytes.write(b"".join(encoded))
        ends = self._size + np.cumsum([len(text) for text in encoded], dtype=np.int64)
        self._size = int(ends[-1]) if len(ends) else self._size
        self._ends.append(ends)
        self._pairs.append(numbers)


class CorpusWriter:
    """Writes the files that `Corpus.load` reads; `corpus.json` comes last and marks the corpus as complete."""

    def __init__(self, folder: Path, languages: list[str], sources: list[str]) -> None:
        self._folder = folder
        self._languages, self._sources = languages, sources
        self._stack = ExitStack()
        (folder / "corpus.json").unlink(missing_ok=True)
        self._english = _TextWriter(folder, "english", self._stack)
        self._other = _TextWriter(folder, "other", self._stack)
        self._language = self._stack.enter_context(ArrayWriter(folder / "language.npy", np.uint16))
        self._source = self._stack.enter_context(ArrayWriter(folder / "source.npy", np.uint16))

    def __enter__(self) -> CorpusWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: Any) -> None:
        self._stack.__exit__(kind, *exc)
        if kind is None:
            self._join()

    def add(self, pairs: Sequence[tuple[str, str]], *, language: str, source: str) -> None:
        """Append pairs of one language and source, best some thousands at once."""
        self._english.add([english for english, _ in pairs])
        self._other.add([other for _, other in pairs])
        self._language.append(np.full(len(pairs), self._languages.index(language)))
        self._source.append(np.full(len(pairs), self._sources.index(source)))

    def _join(self) -> None:
        """Join both sides' texts into one file, English first, and shift the other side's indices accordingly."""
        folder, english_count = self._folder, len(self._english.index)
        with (folder / ".english.bin").open("ab") as target, (folder / ".other.bin").open("rb") as rest:
            english_size = target.tell()
            shutil.copyfileobj(rest, target)
        with ArrayWriter(folder / "texts.npy", np.int64) as offsets:
            offsets.append(np.zeros(1))
            for side, shift in (("english", 0), ("other", english_size)):
                _append_shifted(offsets, folder / f".{side}-ends.npy", shift)
        with ArrayWriter(folder / "other.npy", np.int32) as other:
            _append_shifted(other, folder / ".other.npy", english_count)
        (folder / ".english.bin").replace(folder / "texts.bin")
        (folder / ".english.npy").replace(folder / "english.npy")
        for name in (".other.bin", ".other.npy", ".english-ends.npy", ".other-ends.npy"):
            (folder / name).unlink()
        names = {"languages": self._languages, "sources": self._sources, "english_count": english_count}
        write_json_atomically(folder / "corpus.json", names)


def _append_shifted(target: ArrayWriter, path: Path, shift: int) -> None:
    """Append the array at `path`, `shift` added to each value."""
    values = map_array(path)
    for start in range(0, len(values), SHIFT_CHUNK):
        target.append(values[start : start + SHIFT_CHUNK] + shift)
