"""POST /backup: a copy of the document store, streamed to a client with a full key."""

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.backups import Backups, Copy
from service.api.policy import Access, policy
from service.api.request import RuntimeDependency, while_connected
from service.api.routes.openapi import answers
from service.documents.milvus.address import EMBEDDED
from service.errors import InvalidInput

CHUNK_BYTES = 256 * 1024
MEDIA_TYPE = "application/vnd.sqlite3"

router = APIRouter(tags=["documents"])


class CopyResponse(StreamingResponse):
    """Streams a copy, and closes it when the client has read it or left."""

    def __init__(self, copy: Copy) -> None:
        headers = {
            "content-length": str(copy.size_bytes),
            "content-disposition": 'attachment; filename="documents.sqlite3"',
        }
        super().__init__(_chunks(copy), headers=headers, media_type=MEDIA_TYPE)
        self._copy = copy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the copy."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._copy.close()


async def _chunks(copy: Copy) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(copy.read, CHUNK_BYTES):
        yield chunk


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
@policy(Access.WRITE, strict=True)
async def back_up(request: Request, runtime: RuntimeDependency) -> Response:
    """A copy of all documents at one moment, while others read and write them. Takes no body. One at a time."""
    if runtime.settings.index != EMBEDDED:
        raise InvalidInput("the documents are in Milvus (CROSSLET_INDEX): back them up there")
    backups: Backups = request.app.state.backups
    return CopyResponse(await while_connected(request, backups.copy()))
