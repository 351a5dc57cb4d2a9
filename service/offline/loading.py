"""Loads documents from a stream in batches: embedded in threads, or through a running service.

Each batch is committed: after an interruption, the same command skips what is already there and continues.
"""

import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from service.api.schemas.documents import document_in
from service.documents.document import Document, Span, Vectors, named
from service.documents.ingest import Batch, DocumentSink, Report, changes, join_passages, parts_of, place
from service.documents.own_fields import EXPORTED, OwnFields
from service.documents.readers.records import Record
from service.errors import InferenceFailed, InvalidInput, StoreError
from service.offline.embedding import Engine
from service.offline.service_client import NothingStoredError, ServiceClient

BATCH_DOCUMENTS = 256  # in one transaction, which waits for the disk once
BATCH_CHARS = 1_000_000  # long texts make smaller batches


def to_document(
    record: Record,
    *,
    max_text_chars: int,
    split: Callable[[str], tuple[Span, ...]] | None = None,
    own_fields: OwnFields | None = None,
) -> Document:
    """Return the document of a record, with its metadata as the store would return them.

    Args: split: gives the passages of a text; None: documents stay whole.  own_fields: as `document_in` has them.
    Raises: InvalidInput: it is not a valid document; the message names the field and the limit, never the text.
    """
    if record.fault is not None:
        raise InvalidInput(record.fault)
    fields = {key: value for key, value in record.fields.items() if key not in EXPORTED}
    given = document_in(fields, max_text_chars=max_text_chars, own_fields=own_fields)
    try:
        metadata: dict[str, Any] = orjson.loads(orjson.dumps(given.metadata))  # turns a column's dates into text
    except TypeError as exc:
        raise InvalidInput(f"metadata: cannot be written as JSON ({exc})") from exc
    return Document(given.id, given.text, metadata, () if split is None else split(given.text))


@dataclass
class Load:
    """One load of a file: what it does with records, who hears of it, and the counts so far.

    read: parses a record; raises InvalidInput if it is no document.
    on_bad_line: called with the line and the reason; raises to stop.
    on_failed: called with a document's id or line and the reason, if it cannot be stored; its earlier version stays.
    advance: called with the progress in the source and the counts, after each batch.
    """

    read: Callable[[Record], Document]
    on_bad_line: Callable[[str], None]
    on_failed: Callable[[str], object]
    advance: Callable[[int, Report], object] = lambda read, report: None
    report: Report = field(default_factory=Report)

    def run(self, records: Iterable[Record], sink: DocumentSink, engine: Engine) -> Report:
        """Embed every document that the sink lacks and put it, batch by batch.

        Raises: InvalidInput: a bad line, if `on_bad_line` raises.  StorageFull.
                InferenceFailed: the engine cannot continue; the message names the lines.
        """
        in_flight: Counter[str] = Counter()  # ids that are being embedded: `place` decides about a later version

        def announced() -> Iterator[Batch]:
            for batch in self._batches(records):
                ids = [document.id for document in batch.documents]
                changed = {*changes(batch.documents, sink.documents_of(ids))}
                kept = [position for position, id_ in enumerate(ids) if position in changed or in_flight[id_]]
                in_flight.update(ids[position] for position in kept)
                yield batch.only(kept)

        for batch, documents, vectors_PD, failed in embedded_batches(announced(), engine):
            for position, error in failed.items():
                self.on_failed(f"{named(batch.documents[position].id)}: {error}")
            with uninterrupted():
                place(sink, documents, vectors_PD, self.report)
            in_flight -= Counter(document.id for document in batch.documents)
            self.report.unchanged += batch.unchanged
            self.report.failed += len(failed)
            if batch.read:  # else the source had no record
                self.advance(batch.read, self.report)
        return self.report

    def run_through(self, client: ServiceClient, records: Iterable[Record]) -> Report:
        """Send every document to a service, which compares and embeds; each batch is on its disk before the next.

        Raises: InvalidInput: a bad line, if `on_bad_line` raises.  StartError: as `ServiceClient.put`.
        """
        report = self.report
        report.stored = 0
        for batch in self._batches(records):
            if not batch.documents:
                continue
            try:
                answer = client.put(batch.documents)
            except NothingStoredError as exc:
                self.on_failed(f"lines {batch.lines[0]} to {batch.lines[-1]}: {exc}")
                answer = {"upserted": 0, "unchanged": 0, "failed_lines": len(batch.lines)}
            report.stored += answer["upserted"]
            report.unchanged += answer["unchanged"]
            report.failed += answer["failed_lines"]
            report.truncated += len(answer.get("truncated", []))
            for error in answer.get("errors", []):
                self.on_failed(f"line {batch.lines[error['line'] - 1]}: {error['error']}")
            self.advance(batch.read, report)
        return report

    def _batches(self, records: Iterable[Record]) -> Iterator[Batch]:
        batch = Batch()
        for record in records:
            try:
                document = self.read(record)
            except InvalidInput as exc:
                self.on_bad_line(f"line {record.line}: {exc}")
                self.report.skipped += 1
                continue
            size = len(document.text)
            if not batch.has_room_for(document, size=size, most_documents=BATCH_DOCUMENTS, most_size=BATCH_CHARS):
                yield batch
                batch = Batch()
            batch.read = record.read
            batch.add(document, record.line, size=size)
        yield batch


def refuse(sentence: str) -> None:
    """Of stored documents, which were good when they were put. Raises: StoreError."""
    raise StoreError(f"the documents hold one that is invalid: {sentence}")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C until the block ends, so that store, index and counts agree and no lock stays held."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received:
            signal.raise_signal(signal.SIGINT)


def embedded_batches(
    batches: Iterable[Batch], engine: Engine
) -> Iterator[tuple[Batch, list[Document], Vectors, dict[int, str]]]:
    """Yield each batch with its documents of which no passage failed, their vectors, and the errors of the others.

    The engine reads some batches ahead.

    Raises: InferenceFailed: the engine cannot continue; the message names the lines.
    """
    pending: deque[Batch] = deque()

    def texts() -> Iterator[list[str]]:
        for batch in batches:
            pending.append(batch)
            yield parts_of(batch.documents)

    with closing(engine(texts())) as vectors:
        while True:
            try:
                embedded = next(vectors, None)
            except InferenceFailed as exc:
                lines = next((batch.lines for batch in pending if batch.lines), None)
                if lines is None:
                    raise
                raise exc.at(f"lines {lines[0]} to {lines[-1]}:") from exc
            if embedded is None:
                return
            batch = pending.popleft()
            yield (
                batch,
                *join_passages(
                    batch.documents, embedded.vectors_ND, failed=embedded.failed, truncated=embedded.truncated
                ),
            )
