"""Stores documents that arrive a line each: reads, compares, embeds and writes them batch by batch.

What is answered for is on disk. A line that is no document is reported, and the others are stored. Lines are parsed in
the thread that prepares requests.
"""

import asyncio
import time
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from service.api.body_limit import MAX_VALUES, values_of
from service.api.document_writing import Written, split_documents, write_documents
from service.api.request import Embedder, cost_of
from service.api.schemas.documents import document_in
from service.documents.collections import Versions
from service.documents.document import Document
from service.documents.ingest import Batch, Report, changes
from service.documents.names import check_name
from service.documents.own_fields import OwnFields
from service.errors import InferenceFailed, InvalidInput, NotReady, Overloaded, ServiceError, TooLarge
from service.json_parsing import loads, not_unicode
from service.runtime import Runtime, Steps

BATCH_DOCUMENTS = 64  # embedded together, written in one transaction
BATCH_BYTES = 500_000  # of lines that are held together: a longer line is a batch of its own

T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    """A line with its number, from 1. content: empty: it is blank; None: it has more bytes than a line may have."""

    number: int
    content: bytes | None


class LineSplitter:
    """Splits a body into lines as its parts arrive; holds one of each. max_bytes: of a line, without its end."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._number = 1
        self._kept = bytearray()
        self._is_too_long = False

    def add(self, part: bytes) -> Iterator[Line]:
        """Yield the lines that end in the next part."""
        start = 0
        while (end := part.find(b"\n", start)) >= 0:
            self._keep(part[start:end])
            yield self._line()
            start = end + 1
        self._keep(part[start:])

    def end(self) -> Iterator[Line]:
        """Yield the last line if no line end follows it."""
        if self._kept or self._is_too_long:
            yield self._line()

    def _keep(self, more: bytes) -> None:
        self._kept += more
        if len(self._kept) > self._max_bytes:
            self._is_too_long, self._kept = True, bytearray()

    def _line(self) -> Line:
        content = None if self._is_too_long else bytes(self._kept) if self._kept.strip() else b""
        line = Line(self._number, content)
        self._number, self._kept, self._is_too_long = self._number + 1, bytearray(), False
        return line


@dataclass
class UploadReport(Report):
    """What became of the lines so far.

    lines: that are not blank.  failed: lines that were not stored.  errors: the first ones, by line.
    truncated_ids: the first ids of truncated documents.
    """

    lines: int = 0
    stored: int = 0
    revision: int | None = None
    errors: dict[int, str] = field(default_factory=dict)
    truncated_ids: list[str] = field(default_factory=list)
    tokens: int = 0
    queue_s: float = 0.0
    inference_s: float = 0.0

    @property
    def answer(self) -> dict[str, object]:
        """The answer's JSON; lists that are empty are left out."""
        answer: dict[str, object] = {"upserted": self.stored, "revision": self.revision, "lines": self.lines}
        answer |= {"unchanged": self.unchanged, "failed_lines": self.failed}
        if self.truncated_ids:
            answer["truncated"] = self.truncated_ids
        if self.errors:
            answer["errors"] = [{"line": line, "error": error} for line, error in self.errors.items()]
        return answer

    @property
    def headers(self) -> dict[str, str]:
        """The cost headers of an embedding's answer, summed over all batches."""
        return cost_of(self.tokens, str(self.truncated), queue_s=self.queue_s, inference_s=self.inference_s)


class Upload:
    """Stores one body of lines. embedder: of a request that receives nothing, for the body is read here."""

    def __init__(self, runtime: Runtime, embedder: Embedder) -> None:
        self._runtime = runtime
        self._limits = runtime.settings
        self._embedder = embedder
        self.report = UploadReport()
        self._batch = Batch()
        self._full: Batch | None = None  # the batch before it, until that is stored
        self._own_fields: OwnFields | None = None
        self._read_line = 0  # the number of the last line that was parsed
        self._good_line = 0  # the number of the last line whose document is stored
        self._last_error = ""

    async def run(self, parts: AsyncIterable[bytes]) -> UploadReport:
        """Store every line of a body that is a document.

        Raises: InvalidInput: no line is, too many in a row are none, or the collection's name is malformed.
                ServiceError: the body, the queue or the disk ends the upload; the message says which lines are stored.
        """
        check_name(self._runtime.collection_name)
        self._own_fields = await self._runtime.own_fields()
        lines = LineSplitter(max_bytes=self._limits.max_body_bytes)
        try:
            async for part in parts:
                await self._take(lines.add(part))
            await self._take(lines.end())
            await self._store(self._batch)
        except ServiceError as exc:
            raise exc.worded(
                f"{exc}; the lines before {self._good_line + 1} are done, send the others again"
            ) from exc.__cause__
        if not self.report.lines:
            raise InvalidInput("the body has no line; send a JSON document a line")
        if self.report.failed == self.report.lines:
            number, error = next(iter(self.report.errors.items()))
            raise InvalidInput(f"no line could be stored, of {self.report.lines}; line {number}: {error}")
        return self.report

    async def _take(self, lines: Iterator[Line]) -> None:
        """Parse lines, and store each batch that is full.

        Raises: InvalidInput: too many lines in a row have given no document that is stored.
        """
        while await self._runtime.preparation.run(self._parsed(lines)):
            if self._full is None:
                self._full, self._batch = self._batch, Batch()
            await self._store(self._full)
            self._full = None
            last = self._batch.lines[0] - 1 if self._batch.lines else self._read_line
            bad, limit = last - self._good_line, self._limits.max_bad_lines
            if bad >= limit:
                raise InvalidInput(
                    f"{bad} lines in a row are no documents, up to line {last}; the limit is {limit} "
                    f"(CROSSLET_MAX_BAD_LINES){self._last_error}"
                )

    def _parsed(self, lines: Iterator[Line]) -> Steps[bool]:
        """Parse lines into the batch. Return whether documents must be stored before more lines are parsed."""
        most_documents, most_bad = min(BATCH_DOCUMENTS, self._limits.max_texts), self._limits.max_bad_lines
        for line in lines:
            yield
            self._read_line = line.number
            document = self._document_or_none(line.content) if line.content != b"" else None
            if document is None:
                good_line = self._batch.lines[-1] if self._batch.lines else self._good_line
                if line.number - good_line >= most_bad:
                    return True
                continue
            size = max(len(line.content or b""), len(document.text))  # a template may make a text longer than its line
            if not self._batch.has_room_for(document, size=size, most_documents=most_documents, most_size=BATCH_BYTES):
                self._full, self._batch = self._batch, Batch()
            self._batch.add(document, line.number, size=size)
            if self._full is not None:
                return True
        return False

    def _document_or_none(self, content: bytes | None) -> Document | None:
        """Return the document of a line that is not blank, or None and note why it is none."""
        limits = self._limits
        self.report.lines += 1
        try:
            if content is None:
                raise InvalidInput(f"the line has more than {limits.max_body_bytes} bytes (CROSSLET_MAX_BODY_BYTES)")
            if values_of(content) > MAX_VALUES:
                raise InvalidInput(f"the line has more than {MAX_VALUES} lists, objects and strings")
            given = document_in(loads(content), max_text_chars=limits.max_text_chars, own_fields=self._own_fields)
            return Document(given.id, given.text, given.metadata)
        except orjson.JSONDecodeError:
            self._note(self._read_line, not_unicode(content or b"") or "not valid JSON")
        except InvalidInput as exc:
            self._note(self._read_line, str(exc))
        return None

    async def _store(self, batch: Batch) -> None:
        """Write the new and changed documents. A batch that is refused is tried document by document."""
        if self._runtime.lifecycle.is_draining:
            raise NotReady("the service is shutting down")
        try:
            changed = await self._changed(batch)
            if changed.documents:
                written = await self._patiently(
                    lambda: write_documents(
                        changed.documents, Versions(self._own_fields), embedder=self._embedder, runtime=self._runtime
                    )
                )
                self._count(changed, written)
        except (InvalidInput, InferenceFailed, TooLarge) as exc:
            if len(batch.documents) == 1:
                self._note(batch.lines[0], str(exc).removeprefix("documents[0]."))
                return
            for line, document in zip(batch.lines, batch.documents, strict=True):
                await self._store(Batch([document], [line]))
        else:
            self._good_line = batch.lines[-1] if batch.lines else self._good_line
            self.report.unchanged += len(batch.documents) - len(changed.documents)

    async def _changed(self, batch: Batch) -> Batch:
        """Split a batch into passages, and return the documents that are not stored as they are."""
        runtime = self._runtime
        documents = await self._patiently(lambda: split_documents(batch.documents, self._embedder, runtime, chunk=None))
        ids = [document.id for document in documents]
        stored = await self._patiently(
            lambda: runtime.read(runtime.collections.documents_of, runtime.collection_name, ids)
        )
        positions = changes(documents, stored)
        return Batch([documents[position] for position in positions], [batch.lines[position] for position in positions])

    async def _patiently(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Retry work while the queue is full. The client waits too: its next lines are not read."""
        until = time.monotonic() + self._limits.request_timeout_s
        while True:
            try:
                return await work()
            except Overloaded as exc:
                if time.monotonic() + exc.retry_after_s > until:
                    raise
                await asyncio.sleep(exc.retry_after_s)

    def _count(self, batch: Batch, written: Written) -> None:
        report, most = self.report, self._limits.max_line_errors
        report.stored += written.stored
        report.revision = written.revision
        report.tokens += written.cost.tokens
        report.queue_s += written.cost.queue_s
        report.inference_s += written.cost.inference_s
        report.truncated += len(written.truncated)
        report.truncated_ids += written.truncated[: max(0, most - len(report.truncated_ids))]
        for position, error in written.failed.items():
            self._note(batch.lines[position], error)

    def _note(self, line: int, error: str) -> None:
        self.report.failed += 1
        self._last_error = f"; line {line}: {error}"
        if len(self.report.errors) < self._limits.max_line_errors:
            self.report.errors[line] = error
