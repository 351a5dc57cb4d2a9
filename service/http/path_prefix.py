"""Takes the prefix of CROSSLET_ROOT_PATH off paths, for proxies that leave it there. Knows paths; knows no route."""

from urllib.parse import quote, unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send


class PathPrefix:
    """The outermost layer where a prefix is set. A path without it is taken as it is: the proxy has cut it off."""

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        """prefix: as /a or /a/b; no route begins so, or a path would say both."""
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the path that its route has."""
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._prefix}/"):
            path = scope["path"][len(self._prefix) :] or "/"
            scope = {**scope, "path": path, "raw_path": self._without(scope["raw_path"])}
        await self._app(scope, receive, send)

    def _without(self, raw_path: bytes) -> bytes:
        if raw_path.startswith(self._prefix.encode()):
            return raw_path[len(self._prefix) :] or b"/"
        return quote(unquote_to_bytes(raw_path)[len(self._prefix) :] or "/").encode()  # escaped, needlessly
