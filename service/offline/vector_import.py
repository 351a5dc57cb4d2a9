"""Loads documents with vectors computed elsewhere, from a .npy file or a flat FAISS index.

`check` reads everything before `load` writes anything. Each batch is committed: after an interruption, the same command
skips what is already there and continues.

N documents, D dims, S samples
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from service.documents.document import Document, Vectors, named
from service.documents.ingest import DocumentSink, Report, place
from service.documents.readers.records import Record, open_file
from service.documents.readers.sources import open_source
from service.errors import InferenceFailed, InvalidInput
from service.offline.embedding import Engine
from service.offline.loading import BATCH_DOCUMENTS, uninterrupted

SAMPLES = 32  # texts embedded for comparison
MIN_COSINE = 0.9  # smallest accepted median
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
    with open_file(path, twice=True) as file:
        is_npy = file.read(len(NPY_START)) == NPY_START
    return _npy(path) if is_npy else _faiss(path)


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
    except Exception as exc:  # numpy evaluates the header: a damaged one raises errors of many types
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
    except TypeError as exc:
        raise InvalidInput(f"FAISS opens no file whose name is not UTF-8, as {path}; rename it") from exc
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


class Samples(NamedTuple):
    """Documents sampled evenly from the file. texts: S.  vectors_SD: (S, D), unchanged."""

    texts: list[str]
    vectors_SD: Vectors


class _Batch(NamedTuple):
    """Consecutive documents. start: number of documents before them.  lines: the line of each in the file.

    vectors_ND: of the documents, unchanged; fewer at the end of the vectors' file.
    """

    start: int
    lines: list[int]
    documents: list[Document]
    vectors_ND: Vectors


class VectorImport:
    """One load: the n-th document of a JSONL file gets the n-th vector.

    read: parses a record; raises InvalidInput if it is no document.
    """

    def __init__(self, documents: Path, vectors: VectorFile, *, read: Callable[[Record], Document]) -> None:
        """Raises: StartError: the documents are not in a regular file, or it cannot be read."""
        open_file(documents, twice=True).close()
        self.report = Report()
        self._path = documents
        self._vectors = vectors
        self._read = read

    def check(self, *, dim: int, advance: Callable[[int], object] = lambda documents: None) -> Samples:
        """Check every document and vector, and return samples to compare.

        Raises: InvalidInput: a bad line, a repeated id, a vector that is zero or not finite, or dims or counts that
            differ; the message has both numbers.
        """
        vectors = self._vectors
        if vectors.dim != dim:
            raise InvalidInput(f"{vectors.path} has vectors of {vectors.dim} dims; the model's have {dim}")
        wanted = set(np.linspace(0, max(0, vectors.count - 1), SAMPLES).astype(int).tolist())
        line_of: dict[str, int] = {}
        texts, sampled = [], [np.empty((0, dim), np.float32)]
        for batch in self._batches():
            for line, document in zip(batch.lines, batch.documents, strict=True):
                first = line_of.setdefault(document.id, line)
                if first != line:
                    raise InvalidInput(f"{self._path}: {named(document.id)} is on line {first} and on line {line}")
            self._check_vectors(batch)
            chosen = [place for place in range(len(batch.vectors_ND)) if batch.start + place in wanted]
            texts += [batch.documents[place].text for place in chosen]
            sampled.append(batch.vectors_ND[chosen])
            advance(len(batch.documents))
        if len(line_of) != vectors.count:
            raise InvalidInput(f"{self._path} has {len(line_of)} documents; {vectors.path} has {vectors.count} vectors")
        return Samples(texts, np.concatenate(sampled))

    def load(self, store: DocumentSink, *, advance: Callable[[int], object] = lambda documents: None) -> Report:
        """Put new and changed documents with their vectors, scaled to norm 1; each batch is durable.

        Raises: StorageFull.
        """
        for batch in self._batches():
            vectors_ND = units(batch.vectors_ND)
            with uninterrupted():
                place(store, batch.documents, vectors_ND, self.report)
            advance(len(batch.documents))
        return self.report

    def _batches(self) -> Iterator[_Batch]:
        with open_source(self._path, "jsonl") as source:
            lines = source.records(None)  # of JSON lines all fields, whatever the collection takes
            start = 0
            while records := list(islice(lines, BATCH_DOCUMENTS)):
                documents = [self._document(record) for record in records]
                stop = min(start + len(documents), self._vectors.count)
                vectors_ND = self._vectors.rows(min(start, stop), stop)
                yield _Batch(start, [record.line for record in records], documents, vectors_ND)
                start += len(documents)

    def _document(self, record: Record) -> Document:
        try:
            return self._read(record)
        except InvalidInput as exc:
            raise exc.at(f"{self._path}: line {record.line}:") from exc

    def _check_vectors(self, batch: _Batch) -> None:
        norm_N = norms(batch.vectors_ND)
        for position in np.flatnonzero(~np.isfinite(norm_N) | (norm_N == 0)).tolist():
            fault = "is zero" if norm_N[position] == 0 else "has numbers that are not finite"
            raise InvalidInput(
                f"{self._path}: line {batch.lines[position]}: its vector, number {batch.start + position + 1} of "
                f"{self._vectors.path}, {fault}"
            )


def check_model(samples: Samples, engine: Engine, *, name: str) -> None:
    """Embed the sampled texts with the current model and compare. name: of the model, for messages.

    Raises: InvalidInput: the median cosine is under MIN_COSINE.  InferenceFailed: the model fails on every text.
    """
    count = len(samples.texts)
    if not count:
        return
    (embedded,) = engine([samples.texts])
    if len(embedded.failed) == count:
        raise InferenceFailed(f"{name} failed on all {count} texts to compare: {embedded.failed[0]}")
    given_SD = samples.vectors_SD[[place for place in range(count) if place not in embedded.failed]]
    cosine = float(np.median((units(given_SD) * embedded.vectors_ND).sum(axis=1)))
    if cosine < MIN_COSINE:
        raise InvalidInput(
            f"the vectors of {count} texts have a median cosine of {cosine:.3f} with those of {name}, less than "
            f"{MIN_COSINE}: they belong to another model or other texts (--no-model-check skips this check)"
        )
