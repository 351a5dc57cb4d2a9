"""Stores documents that arrive a line each: reads, compares, embeds and writes them batch by batch.

What is answered for is on disk. A line that is no document is reported, and the others are stored.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from service.documents.comparison import is_same
from service.documents.store.collection_name import check_name
from service.documents.store.document import Document
from service.errors import InferenceFailed, InvalidInput, NotReady, Overloaded, ServiceError, TooLarge
from service.http.dependencies import Embedder
from service.http.document_embedding import in_passages
from service.http.document_writing import Written, write_documents
from service.http.json_size import MAX_VALUES, values_of
from service.http.lines import Line
from service.json_parsing import loads
from service.runtime import Runtime
from service.schemas.documents import document_in

BATCH_DOCUMENTS = 64  # embedded together, written in one transaction
BATCH_BYTES = 500_000  # of lines that are held together: a longer line is a batch of its own

T = TypeVar("T")


@dataclass
class Report:
    """What became of the lines so far. errors: the first ones, by line.  truncated: the first ids of cut texts."""

    lines: int = 0
    upserted: int = 0
    unchanged: int = 0
    revision: int | None = None
    failed_lines: int = 0
    errors: dict[int, str] = field(default_factory=dict)
    truncated_texts: int = 0
    truncated: list[str] = field(default_factory=list)
    tokens: int = 0
    queue_s: float = 0.0
    inference_s: float = 0.0

    @property
    def answer(self) -> dict[str, object]:
        """The answer's JSON; lists that are empty are left out."""
        answer: dict[str, object] = {
            "upserted": self.upserted,
            "revision": self.revision,
            "lines": self.lines,
            "unchanged": self.unchanged,
            "failed_lines": self.failed_lines,
        }
        if self.truncated:
            answer["truncated"] = self.truncated
        if self.errors:
            answer["errors"] = [{"line": line, "error": error} for line, error in self.errors.items()]
        return answer

    @property
    def headers(self) -> dict[str, str]:
        """Those of an embedding's answer, of all batches together."""
        return {
            "x-tokens": str(self.tokens),
            "x-truncated": str(self.truncated_texts),
            "x-queue-ms": f"{self.queue_s * 1000:.2f}",
            "x-inference-ms": f"{self.inference_s * 1000:.2f}",
        }


@dataclass
class _Batch:
    documents: list[Document] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, line: int, document: Document, *, size_bytes: int = 0) -> None:
        self.documents.append(document)
        self.lines.append(line)
        self.size_bytes += size_bytes

    def has_room_for(self, document: Document, *, size_bytes: int, limit: int) -> bool:
        """Each id at most once in a batch: of two the later one stays."""
        is_full = len(self.documents) >= limit or self.size_bytes + size_bytes > BATCH_BYTES
        return not self.documents or (not is_full and all(one.id != document.id for one in self.documents))


class Upload:
    """One body of lines. embedder: its request receives nothing, for the body is read here."""

    def __init__(self, runtime: Runtime, embedder: Embedder) -> None:
        self._runtime = runtime
        self._embedder = embedder
        self.report = Report()
        self._read_lines = 0

    async def run(self, lines: AsyncIterator[Line]) -> Report:
        """Store every line that is a document.

        Raises: InvalidInput: no line is, or the collection's name is malformed.  ServiceError: the body, the queue or
            the disk ends the upload; the message says which lines are stored.
        """
        check_name(self._runtime.collection_name)
        batch = _Batch()
        limit = min(BATCH_DOCUMENTS, self._runtime.settings.max_texts)
        try:
            async for line in lines:
                self.report.lines += 1
                self._read_lines = line.number
                try:
                    document = self._document_in(line)
                except InvalidInput as exc:
                    self._note(line.number, str(exc))
                    continue
                size_bytes = len(line.content or b"")
                if not batch.has_room_for(document, size_bytes=size_bytes, limit=limit):
                    await self._store(batch)
                    batch = _Batch()
                batch.add(line.number, document, size_bytes=size_bytes)
            await self._store(batch)
        except ServiceError as exc:
            done = batch.lines[0] if batch.lines else self._read_lines + 1
            exc.args = (f"{exc}; the lines before {done} are done, send the others again",)
            raise
        return self._checked()

    def _checked(self) -> Report:
        report = self.report
        if not report.lines:
            raise InvalidInput("the body has no line; send a JSON document a line")
        if report.failed_lines == report.lines:
            number, error = next(iter(report.errors.items()))
            raise InvalidInput(f"no line could be stored, of {report.lines}; line {number}: {error}")
        return report

    def _document_in(self, line: Line) -> Document:
        limits = self._runtime.settings
        if line.content is None:
            raise InvalidInput(f"the line has more than {limits.max_body_bytes} bytes (CROSSLET_MAX_BODY_BYTES)")
        if values_of(line.content) > MAX_VALUES:
            raise InvalidInput(f"the line has more than {MAX_VALUES} lists, objects and strings")
        try:
            given = document_in(loads(line.content))
        except orjson.JSONDecodeError as exc:
            raise InvalidInput("not valid JSON") from exc
        if len(given.text) > limits.max_text_chars:
            raise InvalidInput(
                f"text has {len(given.text)} characters; the limit is {limits.max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
            )
        return Document(given.id, given.text, given.metadata)

    async def _store(self, batch: _Batch) -> None:
        """Write what is new or changed. What the index refuses as a whole is tried one by one."""
        if self._runtime.lifecycle.is_draining:
            raise NotReady("the service is shutting down")
        try:
            split = await self._patiently(
                lambda: in_passages(batch.documents, self._embedder, self._runtime, wanted=None)
            )
            changed = await self._patiently(lambda: self._runtime.read(self._changed, _Batch(split, batch.lines)))
            if changed.documents:
                self._count(changed, await self._patiently(lambda: self._written(changed)))
        except (InvalidInput, InferenceFailed, TooLarge) as exc:
            if len(batch.documents) == 1:
                self._note(batch.lines[0], str(exc).removeprefix("documents[0]."))
                return
            for line, document in zip(batch.lines, batch.documents, strict=True):
                await self._store(_Batch([document], [line]))
        else:
            self.report.unchanged += len(batch.documents) - len(changed.documents)

    def _changed(self, batch: _Batch) -> _Batch:
        stored = self._runtime.collections.documents_of(
            self._runtime.collection_name, [document.id for document in batch.documents]
        )
        changed = _Batch()
        for line, document in zip(batch.lines, batch.documents, strict=True):
            before = stored.get(document.id)
            if before is None or not is_same(document, before):
                changed.add(line, document)
        return changed

    def _written(self, batch: _Batch) -> Coroutine[Any, Any, Written]:
        return write_documents(batch.documents, embedder=self._embedder, runtime=self._runtime)

    async def _patiently(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for a full queue: the client waits, too, for its next lines are not read."""
        until = time.monotonic() + self._runtime.settings.request_timeout_s
        while True:
            try:
                return await work()
            except Overloaded as exc:
                if time.monotonic() + exc.retry_after_s > until:
                    raise
                await asyncio.sleep(exc.retry_after_s)

    def _count(self, batch: _Batch, written: Written) -> None:
        report, cost = self.report, written.batch
        report.upserted += written.stored
        report.revision = written.revision
        report.tokens += cost.tokens
        report.queue_s += cost.queue_s
        report.inference_s += cost.inference_s
        report.truncated_texts += len(written.truncated)
        report.truncated += self._room_in(report.truncated, written.truncated)
        for position, error in written.failed.items():
            self._note(batch.lines[position], error)

    def _room_in(self, listed: Sequence[str], more: list[str]) -> list[str]:
        return more[: max(0, self._runtime.settings.max_line_errors - len(listed))]

    def _note(self, line: int, error: str) -> None:
        self.report.failed_lines += 1
        if len(self.report.errors) < self._runtime.settings.max_line_errors:
            self.report.errors[line] = error
