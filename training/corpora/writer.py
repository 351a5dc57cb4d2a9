"""Writes a corpus batch by batch, with a hash of each distinct text in memory."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np

from training.corpora.cleaning.hashes import HashIndex, hash_keys
from training.system.arrays import ArrayWriter, map_array
from training.system.files import write_json_atomically


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
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


def _append_shifted(target: ArrayWriter, path: Path, shift: int, chunk: int = 1 << 20) -> None:
    """Append the array at `path`, `shift` added to each value."""
    values = map_array(path)
    for start in range(0, len(values), chunk):
        target.append(values[start : start + chunk] + shift)
