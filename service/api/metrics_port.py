"""Routes requests to the metrics port to the metrics application."""

from starlette.types import ASGIApp, Receive, Scope, Send


class MetricsPort:
    """Runs two applications in one server, so that they drain and shut down together."""

    def __init__(self, app: ASGIApp, *, metrics_app: ASGIApp, port: int) -> None:
        self._app = app
        self._metrics_app = metrics_app
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on by its port; the lifespan goes to the main application."""
        is_metrics = scope["type"] == "http" and scope["server"][1] == self._port
        await (self._metrics_app if is_metrics else self._app)(scope, receive, send)
