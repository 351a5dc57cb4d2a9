"""Gives what comes over the metrics' own port to their own application. Knows ports; knows no route."""

from starlette.types import ASGIApp, Receive, Scope, Send


class MetricsPort:
    """Two applications in one server, so that one drain and one end are those of both."""

    def __init__(self, app: ASGIApp, *, metrics_app: ASGIApp, port: int) -> None:
        self._app = app
        self._metrics_app = metrics_app
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; the lifespan is the main application's."""
        is_metrics = scope["type"] == "http" and scope["server"][1] == self._port  # the port that the client came to
        await (self._metrics_app if is_metrics else self._app)(scope, receive, send)
