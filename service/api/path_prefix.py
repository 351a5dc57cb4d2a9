"""Strips CROSSLET_ROOT_PATH from paths, for proxies that leave the prefix on."""

from urllib.parse import quote, unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send


class PathPrefix:
    """The outermost middleware if a prefix is set. Paths without it pass unchanged: the proxy has stripped it."""

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        """prefix: like /a or /a/b; no route may begin with it."""
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on without the prefix."""
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._prefix}/"):
            path = scope["path"][len(self._prefix) :] or "/"
            scope = {**scope, "path": path, "raw_path": self._without(scope["raw_path"])}
        await self._app(scope, receive, send)

    def _without(self, raw_path: bytes) -> bytes:
        if raw_path.startswith(self._prefix.encode()):
            return raw_path[len(self._prefix) :] or b"/"
        return quote(unquote_to_bytes(raw_path)[len(self._prefix) :] or "/").encode()  # the prefix was percent-encoded
