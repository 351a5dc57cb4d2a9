"""Checks API keys before the body is read."""

import hashlib
import hmac
import re
from collections.abc import Collection

from fastapi import Security
from fastapi.security import HTTPBearer
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Forbidden, ServiceError, Unauthorized
from service.http.headers import header
from service.http.responses import error_response

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json"})  # /docs describes, it does not answer
OPEN_PREFIXES = ("/docs/", "/page/")  # files that anybody can have; what they ask for needs a key
# For OpenAPI alone, so that /docs can send a key: `KeyCheck` checks, before a body is read.
BEARER = Security(HTTPBearer(auto_error=False, description="A key of CROSSLET_API_KEYS; none if none is set."))
READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
COUNT_PATH = "/documents/count"  # the only read-only POST under /documents
BACKUP_PATH = "/backup"
OF_COLLECTION = re.compile(r"/collections/[^/]+")  # what follows is as for the default one


class KeyCheck:
    """Requires a bearer key of every request. Read-only keys may neither change nor back up documents."""

    def __init__(self, app: ASGIApp, *, full: Collection[str], read: Collection[str], metrics_open: bool) -> None:
        self._app = app
        self._full = [_digest(key.encode("utf-8", "surrogateescape")) for key in full]
        self._read = [_digest(key.encode("utf-8", "surrogateescape")) for key in read]
        self._open = OPEN_PATHS | ({"/metrics"} if metrics_open else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 or 403."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await error_response(scope["path"], refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ServiceError | None:
        path: str = scope["path"]
        reads = scope["method"] in READ_METHODS
        spelled = path.removesuffix("/") or path
        is_open = reads and (spelled in self._open or path.startswith(OPEN_PREFIXES))  # POST / embeds: not open
        if not (self._full or self._read) or is_open:
            return None
        scheme, _, key = header(scope, b"authorization").partition(" ")
        digest = _digest(key.strip(" \t").encode("latin-1"))  # the bytes as sent
        if scheme.lower() != "bearer" or not (_is_among(digest, self._full) | _is_among(digest, self._read)):
            return Unauthorized("send a known key: 'Authorization: Bearer <key>' (CROSSLET_API_KEYS)")
        of_collection = OF_COLLECTION.match(path)
        path = path[of_collection.end() :] if of_collection else path
        counts = scope["method"] == "POST" and path.rstrip("/") == COUNT_PATH  # DELETE would delete the id `count`
        drops = of_collection is not None and not path.strip("/")
        writes = spelled == BACKUP_PATH or drops or (path.startswith("/documents") and not counts)
        if writes and not reads and not _is_among(digest, self._full):
            return Forbidden(
                "this key may read and search, but neither change nor back up documents (CROSSLET_READ_API_KEYS)"
            )
        return None


def _digest(key: bytes) -> bytes:
    # Digests have equal length, so comparing them does not reveal a key's length.
    return hashlib.sha256(key).digest()


def _is_among(digest: bytes, known: list[bytes]) -> bool:
    """Compare with every known key, so that the time taken does not tell which one matches."""
    return bool(sum(hmac.compare_digest(digest, other) for other in known))
