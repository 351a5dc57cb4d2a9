"""Loads documents with vectors computed elsewhere.

`check` reads everything before `load` writes anything. Each batch is committed: after an interruption, the same command
skips what is already there and continues.

N documents, D dims, S samples
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from service.bulk.build import BATCH_DOCUMENTS, Keeps, Outcome, named, sound
from service.bulk.engine import Engine
from service.bulk.records import Record
from service.bulk.sources import open_source
from service.bulk.vector_file import VectorFile, check_plain_file, norms, units
from service.documents.comparison import is_same
from service.documents.protocol import Vectors
from service.documents.store.store import Document
from service.errors import InferenceFailed, InvalidInput

SAMPLES = 32  # texts embedded for comparison
MIN_COSINE = 0.9  # smallest accepted median


@dataclass(frozen=True)
class Samples:
    """Documents sampled evenly from the file. texts: S.  vectors_SD: (S, D), unchanged."""

    texts: list[str]
    vectors_SD: Vectors


@dataclass(frozen=True)
class _Batch:
    """Consecutive documents. start: number of documents before them.  lines: the line of each in the file."""

    start: int
    lines: list[int]
    documents: list[Document]


class VectorImport:
    """One load: the n-th document of a JSONL file gets the n-th vector.

    read: parses a record; raises InvalidInput if it is no document.
    """

    def __init__(self, documents: Path, vectors: VectorFile, *, read: Callable[[Record], Document]) -> None:
        """Raises: StartError: the documents are not in a regular file."""
        check_plain_file(documents)
        self.outcome = Outcome()
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
        texts: list[str] = []
        for batch in self._batches():
            for line, document in zip(batch.lines, batch.documents, strict=True):
                first = line_of.setdefault(document.id, line)
                if first != line:
                    raise InvalidInput(f"{self._path}: {named(document.id)} is on line {first} and on line {line}")
            self._check_vectors(batch)
            texts += [one.text for place, one in enumerate(batch.documents, batch.start) if place in wanted]
            advance(len(batch.documents))
        if len(line_of) != vectors.count:
            raise InvalidInput(f"{self._path} has {len(line_of)} documents; {vectors.path} has {vectors.count} vectors")
        rows = [vectors.rows(place, place + 1) for place in sorted(wanted)] if texts else []
        return Samples(texts, np.concatenate([np.empty((0, dim), np.float32), *rows]))

    def load(self, store: Keeps, *, advance: Callable[[int], object] = lambda documents: None) -> Outcome:
        """Put new and changed documents with their vectors, scaled to norm 1; each batch is durable.

        Raises: StorageFull.
        """
        for batch in self._batches():
            stored = [sound(store, document.id) for document in batch.documents]
            changed = [
                position
                for position, (document, before) in enumerate(zip(batch.documents, stored, strict=True))
                if before is None or not is_same(document, before)
            ]
            if changed:
                rows_ND = self._rows(batch)[changed]
                store.put([batch.documents[position] for position in changed], units(rows_ND))
            new = stored.count(None)
            self.outcome.new += new
            self.outcome.replaced += len(changed) - new
            self.outcome.unchanged += len(stored) - len(changed)
            advance(len(stored))
        return self.outcome

    def _batches(self) -> Iterator[_Batch]:
        with open_source(self._path, "jsonl") as source:
            start = 0
            while records := list(islice(source.records, BATCH_DOCUMENTS)):
                yield _Batch(start, [one.line for one in records], [self._document(one) for one in records])
                start += len(records)

    def _document(self, record: Record) -> Document:
        try:
            return self._read(record)
        except InvalidInput as exc:
            raise InvalidInput(f"{self._path}: line {record.line}: {exc}") from exc

    def _rows(self, batch: _Batch) -> Vectors:
        """Return the vectors of a batch; fewer at the end of the file."""
        stop = min(batch.start + len(batch.documents), self._vectors.count)
        return self._vectors.rows(min(batch.start, stop), stop)

    def _check_vectors(self, batch: _Batch) -> None:
        norm_N = norms(self._rows(batch))
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
