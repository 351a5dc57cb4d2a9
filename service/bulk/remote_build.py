"""Loads documents from a stream through a running service, in batches. The service compares, embeds and writes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from service.bulk.build import BATCH_CHARS, BATCH_DOCUMENTS, Outcome
from service.bulk.records import Record
from service.bulk.service_client import NothingStoredError, ServiceClient
from service.documents.store.document import Document
from service.errors import InvalidInput


@dataclass
class Sent(Outcome):
    """Counts of what the service made of the documents so far. stored: new or replaced ones."""

    stored: int = 0

    @property
    def total(self) -> int:
        """Documents of the file that are now in the store."""
        return self.stored + self.unchanged

    @property
    def numbers(self) -> str:
        """The first part of the sentence."""
        return f"{self.total} documents read: {self.stored} new or replaced, {self.unchanged} unchanged"


class RemoteBuild:
    """One load.

    Args: read, on_bad_line, advance: as `Build` has them.
          on_failed: called with the line and the reason where the service did not store a document.
    """

    def __init__(
        self,
        client: ServiceClient,
        *,
        read: Callable[[Record], Document],
        on_bad_line: Callable[[str], None],
        on_failed: Callable[[str], object],
        advance: Callable[[int, Outcome], None] = lambda read, outcome: None,
    ) -> None:
        self.outcome = Sent()
        self._client = client
        self._read = read
        self._on_bad_line = on_bad_line
        self._on_failed = on_failed
        self._advance = advance
        self._documents: list[Document] = []
        self._lines: list[int] = []

    def run(self, records: Iterable[Record]) -> Outcome:
        """Send every record, batch by batch; each is on the service's disk before the next is sent.

        Raises: InvalidInput: a bad line, if `on_bad_line` raises.  StartError: as `ServiceClient.put`.
        """
        read = 0
        for record in records:
            try:
                document = self._read(record)
            except InvalidInput as exc:
                self._on_bad_line(f"line {record.line}: {exc}")
                self.outcome.skipped += 1
                continue
            self._documents.append(document)
            self._lines.append(record.line)
            read = record.read
            if len(self._documents) >= BATCH_DOCUMENTS or sum(len(one.text) for one in self._documents) >= BATCH_CHARS:
                self._send(read)
        self._send(read)
        return self.outcome

    def _send(self, read: int) -> None:
        if not self._documents:
            return
        try:
            answer = self._client.put(self._documents)
        except NothingStoredError as exc:
            self._on_failed(f"lines {self._lines[0]} to {self._lines[-1]}: {exc}")
            answer = {"upserted": 0, "unchanged": 0, "failed_lines": len(self._lines)}
        self.outcome.stored += answer["upserted"]
        self.outcome.unchanged += answer["unchanged"]
        self.outcome.failed += answer["failed_lines"]
        self.outcome.truncated += len(answer.get("truncated", []))
        for error in answer.get("errors", []):
            self._on_failed(f"line {self._lines[error['line'] - 1]}: {error['error']}")
        self._documents, self._lines = [], []
        self._advance(read, self.outcome)
