"""Loads new and changed documents from a stream into the store, in batches.

Each batch is committed: after an interruption, the same command skips what is already there and continues.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from service.api.schemas.documents import document_in
from service.documents.comparison import is_same
from service.documents.protocol import Vectors
from service.documents.readers.records import EXPORTED, Record
from service.documents.store.document import Document, Span, chosen, parts_of, whole
from service.documents.store.store import StoredDocument
from service.errors import Damaged, InferenceFailed, InvalidInput
from service.offline.embedding import Embedded, Engine

BATCH_DOCUMENTS = 256  # in one transaction, which waits for the disk once
BATCH_CHARS = 1_000_000  # long texts make smaller batches
NUMBERS = "{total} documents read: {new} new, {replaced} replaced, {unchanged} unchanged"


class Keeps(Protocol):
    """The store that documents are loaded into."""

    def get(self, id_: str) -> StoredDocument | None:
        """Return one document by its id."""

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        """Insert or replace documents, each id at most once, with their passages' vectors; durable on return."""


@dataclass
class Outcome:
    """Counts of what happened to the documents so far.

    truncated: new or replaced documents longer than the model reads.  failed: documents the model failed on.
    """

    new: int = 0
    replaced: int = 0
    unchanged: int = 0
    skipped: int = 0
    truncated: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """Documents of the file that are now in the store."""
        return self.new + self.replaced + self.unchanged

    @property
    def numbers(self) -> str:
        """The sentence about documents that are in the store."""
        return NUMBERS.format(**vars(self), total=self.total)

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(**{name: count + vars(other)[name] for name, count in vars(self).items()})

    def __str__(self) -> str:
        said = self.numbers
        said += f", {self.skipped} bad lines skipped" if self.skipped else ""
        said += f", {self.failed} could not be embedded" if self.failed else ""
        return said + (f"; of {self.truncated} the model read only the beginning" if self.truncated else "")


def to_document(
    record: Record, *, max_text_chars: int, split: Callable[[str], tuple[Span, ...]] | None = None
) -> Document:
    """Return the document of a record, with its metadata as the store would return them.

    split: gives the passages of a text; None: documents stay whole.
    Raises: InvalidInput: it is not a valid document; the message names the field and the limit, never the text.
    """
    if record.fault is not None:
        raise InvalidInput(record.fault)
    given = document_in({key: value for key, value in record.fields.items() if key not in EXPORTED})
    if len(given.text) > max_text_chars:
        raise InvalidInput(
            f"text: has {len(given.text)} characters; the limit is {max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
        )
    passages = () if split is None else split(given.text)
    return Document(given.id, given.text, _as_stored(given.metadata), passages)


def _as_stored(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = orjson.loads(orjson.dumps(metadata))  # turns a column's dates into text
    except TypeError as exc:
        raise InvalidInput(f"metadata: cannot be written as JSON ({exc})") from exc
    return stored


def named(id_: str) -> str:
    """Name a document in a message, with its id escaped to one line."""
    return f"document {orjson.dumps(id_).decode()}"


def sound(store: Keeps, id_: str) -> StoredDocument | None:
    """Return the stored document, or None if it is missing or damaged on disk: a damaged one is replaced."""
    try:
        return store.get(id_)
    except Damaged:
        return None


@dataclass
class _Batch:
    """Documents to embed together, and counts of what else was read since the batch before."""

    documents: list[Document] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    chars: int = 0
    unchanged: int = 0
    skipped: int = 0
    read: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.documents) + self.unchanged >= BATCH_DOCUMENTS or self.chars >= BATCH_CHARS


class Build:
    """One load.

    Args: read: parses a record; raises InvalidInput if it is no document.
          on_bad_line: called with the line and the reason; raises to stop.
          on_failed: called with the id and the reason if a document cannot be embedded; its earlier version stays.
          advance: called with the progress in the source and the counts.
    """

    def __init__(
        self,
        store: Keeps,
        *,
        read: Callable[[Record], Document],
        on_bad_line: Callable[[str], None],
        on_failed: Callable[[str], object],
        advance: Callable[[int, Outcome], None] = lambda read, outcome: None,
    ) -> None:
        self.outcome = Outcome()
        self._store = store
        self._read = read
        self._on_bad_line = on_bad_line
        self._on_failed = on_failed
        self._advance = advance
        self._pending: deque[_Batch] = deque()  # being embedded, in order
        self._in_flight: Counter[str] = Counter()  # ids in `_pending`

    def run(self, records: Iterable[Record], engine: Engine) -> Outcome:
        """Load every record, committing batch by batch.

        Raises: InvalidInput: a bad line, if `on_bad_line` raises.  StorageFull.
                InferenceFailed: the engine cannot continue; the message names the lines.
        """
        with closing(engine(self._texts(records))) as vectors:
            while True:
                try:
                    embedded = next(vectors, None)
                except InferenceFailed as exc:
                    lines = next((batch.lines for batch in self._pending if batch.lines), None)
                    where = f"lines {lines[0]} to {lines[-1]}: " if lines else ""
                    raise InferenceFailed(f"{where}{exc}") from exc
                if embedded is None:
                    return self.outcome
                self._write(embedded)

    def _texts(self, records: Iterable[Record]) -> Iterator[list[str]]:
        for batch in self._batches(records):
            self._pending.append(batch)
            self._in_flight.update(batch.ids)
            yield parts_of(batch.documents)

    def _batches(self, records: Iterable[Record]) -> Iterator[_Batch]:
        batch = _Batch()
        for record in records:
            try:
                document = self._read(record)
            except InvalidInput as exc:
                self._on_bad_line(f"line {record.line}: {exc}")
                batch.skipped += 1
                continue
            if batch.is_full or document.id in batch.ids:  # each id at most once a batch; a later one replaces it
                yield batch
                batch = _Batch()
            batch.read = record.read
            if self._is_there(document):
                batch.unchanged += 1
            else:
                batch.documents.append(document)
                batch.lines.append(record.line)
                batch.ids.add(document.id)
                batch.chars += len(document.text)
        yield batch

    def _is_there(self, document: Document) -> bool:
        if self._in_flight[document.id]:  # an earlier version is still to be written: `_write` decides
            return False
        stored = sound(self._store, document.id)
        return stored is not None and is_same(document, stored)

    def _write(self, embedded: Embedded) -> None:
        batch = self._pending[0]
        documents, vectors_PD, failed = whole(
            batch.documents, embedded.vectors_ND, failed=embedded.failed, truncated=embedded.truncated
        )
        for position, error in failed.items():
            self._on_failed(f"{named(batch.documents[position].id)}: {error}")
        stored = [sound(self._store, document.id) for document in documents]
        changed = [
            position
            for position, (document, before) in enumerate(zip(documents, stored, strict=True))
            if before is None or not is_same(document, before)
        ]
        if changed:
            self._store.put([documents[position] for position in changed], chosen(documents, vectors_PD, changed))
        self._pending.popleft()
        self._in_flight -= Counter(batch.ids)
        new = stored.count(None)
        self.outcome.new += new
        self.outcome.replaced += len(changed) - new
        self.outcome.unchanged += batch.unchanged + len(stored) - len(changed)
        self.outcome.skipped += batch.skipped
        self.outcome.truncated += sum(documents[position].is_truncated is True for position in changed)
        self.outcome.failed += len(failed)
        self._advance(batch.read, self.outcome)
