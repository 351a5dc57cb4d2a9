"""Re-embeds a document store for another model, while a service may still use the old store.

documents.sqlite3       the old model's store; only read until the end
documents.next.sqlite3  its replacement; grows with every run of the command, and when the new model's service starts
"""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import orjson

from service.document_index import next_store
from service.documents.document import Document, Span, StoredDocument, Vectors
from service.documents.ingest import Report
from service.documents.names import where
from service.documents.readers.records import Record
from service.documents.store.connections import REVISION_SUFFIX, beside, connect
from service.documents.store.locking import lock_for_this_process
from service.documents.store.schema import is_blank
from service.documents.store.store import DocumentStore
from service.errors import InferenceFailed, StartError, StoreError
from service.model.encoder import Encoder
from service.model.spaces import stored_as
from service.offline.embedding import Engine, stored_engine
from service.offline.loading import Load, refuse
from service.offline.store_file import StoreFile, open_alone, open_store_file
from service.process.files import flush, resolved
from service.settings import Settings

COPIED = "copied"  # a fact of the next store: the old one's revision that it was last brought up to
PAGE_ROWS = 1000

logger = logging.getLogger(__name__)


class Reembedding:
    """Converts the store at `path` to the vectors of another model; an interrupted run can be continued."""

    def __init__(
        self,
        path: Path,
        *,
        fingerprint: str,
        dim: int,
        split: Callable[[str], tuple[Span, ...]] = lambda text: (),
        on_failed: Callable[[str], object] = lambda sentence: None,
    ) -> None:
        """Args: split: gives the passages of a text, by the new model's tokens. Documents in passages, and where the
        store says so all, are split anew.  on_failed: called for each document that the new model fails on.
        """
        self._path = resolved(path)
        self._next = next_store(path)
        self._fingerprint = fingerprint
        self._dim = dim
        self._split = split
        self._on_failed = on_failed

    def copy(self, engine: Engine, *, advance: Callable[[int, Report], object] = lambda read, report: None) -> Report:
        """Bring the next store up to date: embed missing or changed documents, delete surplus ones.

        A next store begun for another model is discarded.

        Raises: StoreError: there is no store, it already has this model's vectors, or another run is active.
                InferenceFailed: the new model fails on some texts; everything else is done.
        """
        with open_store_file(self._path) as old:
            if old.fingerprint == self._fingerprint:
                raise StoreError(f"document store {self._path} already has the vectors of this model")
            self._discard_another_models()
            next_ = DocumentStore(self._next, fingerprint=self._fingerprint, dim=self._dim, chunks=old.chunks)
            with closing(next_) as store:
                report = self._copy_collections(store, old, engine, advance)
                if not report.failed:
                    store.note(COPIED, str(old.revision))
        if report.failed:
            raise InferenceFailed(
                f"{report}; document store {self._path} is unchanged: delete these documents or put them with other "
                "texts, then run the same command again"
            )
        return report

    def take_over(self, engine: Engine) -> None:
        """Lock the old store, copy the last changes, and replace the old store by the next one.

        Raises: StoreInUse: another process has the old store; the next one stays.
                StoreError: another process reads it; the same.
                InferenceFailed: as for `copy`.
        """
        with open_alone(self._path) as old:
            self.copy(engine)
            old.disconnect()  # the last connection removes the log, which must not be left beside the new file
            if beside(self._path, "-wal").exists():
                raise StoreError(
                    f"another process reads document store {self._path}; {self._next} is ready: stop that process and "
                    "run the same command again"
                )
            if beside(self._next, "-wal").exists():  # the next store is incomplete without it
                raise StoreError(
                    f"the log of {self._next} could not be merged into it: another process reads it, or the disk is "
                    f"full; document store {self._path} is unchanged: run the same command again"
                )
            self._next.replace(self._path)
            flush(self._path.parent)
        for suffix in (".lock", REVISION_SUFFIX):
            self._next.with_suffix(suffix).unlink(missing_ok=True)

    def _as_it_is(self, record: Record) -> Document:
        """Take a stored document as it is: today's rules for new documents do not apply."""
        id_, text, metadata, is_split = (record.fields[key] for key in ("id", "text", "metadata", "is_split"))
        return Document(id_, text, metadata, self._split(text) if is_split else ())

    def _fail(self, place: str, sentence: str) -> None:
        self._on_failed(place + sentence)

    @property
    def is_ready(self) -> bool:
        """Whether the next store was brought up to date for this model. `take_over` copies later changes."""
        if not (self._path.is_file() and self._next.is_file()) or _is_blank(self._next):
            return False
        with open_store_file(self._path) as old, open_store_file(self._next) as begun:
            is_ours = begun.fingerprint == self._fingerprint != old.fingerprint
            return is_ours and COPIED in begun.facts

    def _copy_collections(
        self, store: DocumentStore, old: StoreFile, engine: Engine, advance: Callable[[int, Report], object]
    ) -> Report:
        collections = old.collections()
        names = {row.name for row in collections}
        for row in store.catalog.listed():
            if row.name not in names:
                store.catalog.drop(row.number)
        report, before = Report(), 0
        for row in collections:
            file = old.view(row)
            number = store.catalog.number_of(row.name)
            if number is None:
                number = store.catalog.create(row.name, most=sys.maxsize, chunks=file.chunks)
            store.catalog.configure(number, file.own_fields)
            store.catalog.recalibrate(number, file.recalibration)  # of it the share of questions stays valid
            copied = store.of(number)
            _delete_moved(copied, file)
            work = Load(self._as_it_is, refuse, partial(self._fail, where(row.name)), advance, report)
            work.run(_records(file, before), _StoreSink(copied), engine)
            _delete_gone(copied, file)
            before += row.documents
        if store.revision < old.revision:  # clients must never see it fall
            with store.transaction() as transaction:
                transaction.revision = old.revision
                transaction.commit()
        return report

    def _discard_another_models(self) -> None:
        if self._next.is_file():
            if _is_blank(self._next):  # interrupted before its tables were created
                return
            with open_store_file(self._next) as begun:
                if begun.fingerprint == self._fingerprint:
                    return
            with lock_for_this_process(self._next):
                self._next.unlink()
                beside(self._next, "-wal").unlink(missing_ok=True)
        self._next.with_suffix(REVISION_SUFFIX).unlink(missing_ok=True)


def take_over_ready(encoder: Encoder, settings: Settings) -> None:
    """Before a service starts with another model, take over the vectors that `copy` has made ready for it, if any.

    Raises: StartError: the model fails on what changed since, or another process has the store; it is unchanged.
    """
    stored = stored_as(encoder.manifest, settings.space)
    split, path = encoder.splitter.split, settings.documents_path
    work = Reembedding(path, fingerprint=stored.fingerprint, dim=stored.dim, split=split)
    if not work.is_ready:
        return
    try:
        work.take_over(stored_engine("threads", encoder, settings, prompt=encoder.prompts.document))
    except InferenceFailed as exc:
        raise StartError(str(exc)) from exc
    logger.info("documents re-embedded", extra={"model": encoder.manifest.name})


class _StoreSink:
    """The next store as a `DocumentSink`, without a vector index."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    def documents_of(self, ids: Sequence[str]) -> dict[str, StoredDocument]:
        with self._store.snapshot() as snapshot:
            return snapshot.documents_of(ids)

    def put(self, documents: Sequence[Document], vectors_PD: Vectors) -> int:
        with self._store.transaction() as transaction:
            transaction.upsert(documents, vectors_PD)
            transaction.commit()
            return transaction.revision


def _is_blank(path: Path) -> bool:
    with closing(connect(path, "ro")) as connection:
        return is_blank(connection)


def _records(old: StoreFile, before: int) -> Iterator[Record]:
    for number, document in enumerate(old.documents(with_vectors=False), before + 1):
        fields = {"id": document.id, "text": document.text.decode(), "metadata": orjson.loads(document.metadata)}
        fields["is_split"] = old.chunks or old.is_split(document.row)
        yield Record(number, number, fields)


def _delete_gone(store: DocumentStore, old: StoreFile) -> None:
    after_row: int | None = 0
    while after_row is not None:
        with store.snapshot() as snapshot:
            page = snapshot.page(after_row=after_row, limit=PAGE_ROWS, max_chars=sys.maxsize)
            gone = snapshot.rows_of(old.missing(document.id for document in page.documents))
        _delete(store, gone)
        after_row = page.next_row


def _delete_moved(store: DocumentStore, old: StoreFile) -> None:
    """Delete documents that would be out of order, so that `Load` appends them in the old store's order."""
    last_row, moved = 0, []
    with store.snapshot() as snapshot:
        for document in old.documents(with_vectors=False):
            rows = snapshot.rows_of([document.id])
            moved += [row for row in rows if row < last_row]
            last_row = rows[0] if rows and rows[0] >= last_row else sys.maxsize
    _delete(store, moved)


def _delete(store: DocumentStore, rows: Sequence[int]) -> None:
    if rows:
        with store.transaction() as transaction:
            transaction.delete(rows)
            transaction.commit()
