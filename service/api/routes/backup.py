"""POST /backup: copies the document store, one copy at a time, and streams it to a client with a full key."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.policy import Access, Policy, Reach
from service.api.request import RuntimeDependency, while_connected
from service.api.routes.openapi import answers
from service.documents.milvus.address import EMBEDDED
from service.documents.store.backup import back_up as copy_store
from service.errors import ClientGone, Damaged, InvalidInput, Overloaded, StorageFull, StoreError

CHUNK_BYTES = 256 * 1024
MEDIA_TYPE = "application/vnd.sqlite3"
COPY = "documents.backup.sqlite3"  # beside the store, until the copy is complete
RETRY_AFTER_S = 30

router = APIRouter(tags=["documents"])


class CopyResponse(StreamingResponse):
    """Streams a complete copy, and closes it when the client has read it or left.

    The copy is an open file without a name: its space is freed however the process ends.
    """

    def __init__(self, file: BinaryIO, on_close: Callable[[], None]) -> None:
        headers = {
            "content-length": str(os.fstat(file.fileno()).st_size),
            "content-disposition": 'attachment; filename="documents.sqlite3"',
        }
        super().__init__(_chunks(file), headers=headers, media_type=MEDIA_TYPE)
        self._file = file
        self._on_close = on_close

    def close(self) -> None:
        """Free the space, and let another copy be made."""
        self._file.close()
        self._on_close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the copy."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.close()


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
        yield chunk


class Backups:
    """Copies one store, one copy at a time. Call on one event loop."""

    def __init__(self, store: Path, check_files: Callable[[], None] = lambda: None) -> None:
        """check_files: raises NotReady if another file has the store's name."""
        self._store = store
        self._check_files = check_files
        self._path = store.with_name(COPY)
        with suppress(OSError):
            self._path.unlink()  # of a process that was killed
        self._is_busy = False

    async def copy(self) -> CopyResponse:
        """Copy the store as it is now. Cancelled, it ends within 4 MiB, and what was written is removed.

        Raises: Overloaded: another copy is being made or read.  StorageFull: no room beside the store.  Damaged.
                NotReady: the store was moved, deleted or replaced.
        """
        if self._is_busy:
            raise Overloaded("another backup is not read yet; one is made at a time", retry_after_s=RETRY_AFTER_S)
        self._is_busy = True
        is_unwanted = threading.Event()
        making = asyncio.ensure_future(asyncio.to_thread(self._make, is_unwanted))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            is_unwanted.set()
            making.add_done_callback(_discard)
            raise

    def _make(self, is_unwanted: threading.Event) -> CopyResponse:
        try:
            return self._unnamed_copy(is_unwanted)
        except BaseException as exc:
            self._free()  # only now that the name is free
            if isinstance(exc, StorageFull):
                raise StorageFull(f"{exc}; `crosslet index backup` can write to another disk") from exc
            if isinstance(exc, StoreError):
                raise Damaged(str(exc)) from exc
            raise

    def _unnamed_copy(self, is_unwanted: threading.Event) -> CopyResponse:
        def stop_if_unwanted(_done_bytes: int, _all_bytes: int) -> None:
            if is_unwanted.is_set():
                raise ClientGone("the client disconnected before the backup was ready")

        try:
            self._check_files()
            copy_store(self._store, self._path, advance=stop_if_unwanted)
            self._check_files()  # the copy is of this store
            return CopyResponse(self._path.open("rb"), self._free)
        finally:
            self._path.unlink(missing_ok=True)

    def _free(self) -> None:
        self._is_busy = False


def _discard(making: asyncio.Future[CopyResponse]) -> None:
    """Close a copy that was complete when its client left."""
    if not making.cancelled() and making.exception() is None:
        making.result().close()


@router.post(
    "/backup",
    response_class=StreamingResponse,
    responses=answers(
        *(401, 403, 422, 429, 503, 507),
        description="The store as SQLite's file, for `crosslet index restore`.",
        content={MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}, "example": "SQLite format 3"}},
    ),
    summary="Back up the documents",
)
@Policy(Access.WRITE, Reach.ALL, strict=True)
async def back_up(request: Request, runtime: RuntimeDependency) -> Response:
    """A copy of all documents at one moment, while others read and write them. Takes no body. One at a time."""
    if runtime.settings.index != EMBEDDED:
        raise InvalidInput("the documents are in Milvus (CROSSLET_INDEX): back them up there")
    backups: Backups = request.app.state.backups
    return await while_connected(request, backups.copy())
