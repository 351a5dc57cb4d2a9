"""Opens the documents that `CROSSLET_INDEX` names, for the service or for a command."""

import logging
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from service.documents.collections import Collection, Collections, EmbeddedCollections, IndexOptions
from service.documents.interface import DocumentIndex
from service.documents.milvus.address import EMBEDDED, milvus_address
from service.documents.names import DEFAULT_NAME
from service.documents.store.catalog import unknown
from service.documents.store.connections import beside
from service.documents.store.store import DocumentStore, Snapshot
from service.documents.vectors.index import VectorIndex
from service.errors import Damaged, StartError, StoreError
from service.model.artifact import Manifest
from service.model.spaces import stored_as
from service.process.files import PRIVATE, resolved
from service.settings import Settings

if TYPE_CHECKING:  # imported where Milvus is used
    from service.documents.milvus.collections import MilvusCollections

NEXT = "documents.next.sqlite3"  # beside the store: what `crosslet index re-embed` has made ready for another model

logger = logging.getLogger(__name__)


def next_store(path: Path) -> Path:
    """Return the path of the store that is to replace the one at `path` when another model's service starts."""
    return resolved(path).with_name(NEXT)  # the file of a link is replaced, not the link


def load_collections(
    settings: Settings, manifest: Manifest, *, check_memory: Callable[[int], None] = lambda growth_bytes: None
) -> Collections:
    """Open all documents that `CROSSLET_INDEX` names, to serve them.

    Args:   check_memory: raises StorageFull if the process has no room for that many bytes of vectors.
    Raises: StoreError: the store is unreadable, in use, or has vectors of another model or space.
            StartError: Milvus cannot be used, or the model has no such space.
    """
    manifest = stored_as(manifest, settings.space)
    if settings.index != EMBEDDED:
        collections = _milvus_collections(settings, manifest)
        index = collections.opened(DEFAULT_NAME, create=True)
        if not index.has_keywords:
            if settings.search_mode in {"keywords", "hybrid"}:
                raise StartError(
                    f"CROSSLET_SEARCH_MODE is {settings.search_mode}, but the documents in Milvus have no keywords: "
                    "they need Milvus 2.5 (CROSSLET_INDEX); leave it out"
                )
            logger.warning("documents are found by meaning alone: keywords need Milvus 2.5")
        return collections
    options = _index_options(settings, manifest, check_memory=check_memory)
    with _opened_store(settings, manifest) as store:
        if settings.keys():
            _make_private(resolved(settings.documents_path))
        return EmbeddedCollections(store, options, max_collections=settings.max_collections)


def _make_private(store: Path) -> None:
    """Let only the owner read the store and its log: over HTTP, too, others need a key."""
    for path in (store, beside(store, "-wal"), beside(store, "-shm")):
        if path.stat().st_mode & stat.S_IRWXO:
            try:
                path.chmod(PRIVATE)
            except OSError as exc:  # another user owns it
                facts = {"path": str(path), "reason": exc.strerror}
                logger.warning("others can read the documents without a key", extra=facts)


def load_collection(
    settings: Settings, manifest: Manifest, *, name: str = DEFAULT_NAME, read_only: bool = False
) -> DocumentIndex:
    """Open one collection, for a command.

    Args:   read_only: a running service may have it open, too; otherwise it is made if there is none.
    Raises: StoreError, StartError: as `load_collections`, or there is no such collection.
            StorageFull: there are too many.
    """
    manifest = stored_as(manifest, settings.space)
    if settings.index != EMBEDDED:
        return _milvus_collections(settings, manifest).opened(name, create=not read_only)
    options = _index_options(settings, manifest)
    with _opened_store(settings, manifest, read_only=read_only) as store:
        is_new = store.catalog.number_of(name) is None
        _select(store, name, settings, read_only=read_only)
        others = options.bytes_of_others(store) if options.max_index_bytes and not read_only else 0
        return Collection(store, options, others_bytes=lambda: others, read_only=read_only, is_new=is_new)


@contextmanager
def read_collection(settings: Settings, manifest: Manifest, name: str) -> Iterator[tuple[Snapshot, VectorIndex]]:
    """Lend one state of a local collection, and the index that a service searches. A service may have it open, too.

    Raises: StoreError, StartError: as `load_collection`.
    """
    manifest = stored_as(manifest, settings.space)
    with _opened_store(settings, manifest, read_only=True) as store, closing(store):
        _select(store, name, settings, read_only=True)
        index = _index_options(settings, manifest).maintained(store, read_only=True).load()
        with store.snapshot() as snapshot:
            yield snapshot, index


def _select(store: DocumentStore, name: str, settings: Settings, *, read_only: bool) -> None:
    number = store.catalog.number_of(name)
    if number is None and read_only:
        raise unknown(name, [row.name for row in store.catalog.listed()], settings.documents_path)
    if number is None:
        number = store.catalog.create(name, most=settings.max_collections, chunks=settings.chunk is not False)
    store.number = number


@contextmanager
def _opened_store(settings: Settings, manifest: Manifest, *, read_only: bool = False) -> Iterator[DocumentStore]:
    """Open the store; if what follows fails, close it. A damaged one is one that cannot be served."""
    store = DocumentStore(
        settings.documents_path,
        fingerprint=manifest.fingerprint,
        dim=manifest.dim,
        read_only=read_only,
        chunks=settings.chunk is not False,
    )
    try:
        yield store
    except Damaged as exc:
        store.close()
        raise StoreError(str(exc)) from exc
    except BaseException:
        store.close()
        raise


def _index_options(
    settings: Settings, manifest: Manifest, *, check_memory: Callable[[int], None] = lambda growth_bytes: None
) -> IndexOptions:
    return IndexOptions(
        folder=resolved(settings.data),  # a link to it may be changed meanwhile
        fingerprint=manifest.fingerprint,
        dim=manifest.dim,
        exact_documents=settings.exact_documents,
        max_index_bytes=settings.max_index_bytes,
        check_memory=check_memory,
        chunks=settings.chunk is not False,
    )


def _milvus_collections(settings: Settings, manifest: Manifest) -> "MilvusCollections":
    from service.documents.milvus.collections import MilvusCollections
    from service.documents.milvus.connection import MilvusConnection

    connection = MilvusConnection(
        milvus_address(settings.index),
        token=settings.index_token.get_secret_value(),
        timeout_s=settings.index_timeout_s,
        consistency=settings.index_consistency,
    )
    return MilvusCollections(
        connection,
        fingerprint=manifest.fingerprint,
        dim=manifest.dim,
        max_collections=settings.max_collections,
    )
