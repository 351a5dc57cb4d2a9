"""Runs the application in uvicorn and shuts it down gracefully.

On SIGTERM, SIGINT or SIGHUP (the terminal closes), /ready turns 503 at once. New requests are accepted for another
`drain_delay_s`, until load balancers have noticed. Then the server stops listening, finishes accepted requests and
exits with 0. A second signal skips the delay.
"""

import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.app import create_app, create_metrics_app
from service.api.connection import Connection
from service.api.startup import METRICS_PORT, listen, url_of
from service.process.descriptors import connection_limit
from service.process.memory import settle
from service.runtime import Runtime


class Server(uvicorn.Server):
    """uvicorn's server, with a drain delay before its shutdown. on_start: called once it answers."""

    def __init__(self, config: uvicorn.Config, runtime: Runtime, *, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._runtime = runtime
        self._on_start = on_start
        self._exit_at_s: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start draining. A signal during the drain ends it; a later one forces the exit. No signal is raised again."""
        if self._exit_at_s is None:
            self._runtime.lifecycle.is_draining = True
            self._exit_at_s = time.monotonic() + self._runtime.settings.drain_delay_s
        elif self.should_exit:
            self.force_exit = True
        else:
            self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer, and say so."""
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def on_tick(self, counter: int) -> bool:
        """Stop the server when the drain delay is over. uvicorn calls it ten times a second."""
        if self._exit_at_s is not None and time.monotonic() >= self._exit_at_s:
            self.should_exit = True
        return await super().on_tick(counter)


def serve(
    runtime: Runtime,
    listener: socket.socket,
    metrics_listener: socket.socket | None = None,
    *,
    on_start: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve on bound sockets until a signal; return after the last accepted request.

    on_start: called with the service's URL once it answers.
    Raises: StartError: another process has started to listen on the port meanwhile.
    """
    settings = runtime.settings
    app: ASGIApp = create_app(runtime)
    sockets = [listener]
    if metrics_listener is not None:
        app = MetricsPort(app, metrics_app=create_metrics_app(runtime), port=settings.metrics_port)
        sockets.append(metrics_listener)
    limit = connection_limit(runtime.metrics.refused_connections.inc)
    settle()
    listen(listener)
    if metrics_listener is not None:
        listen(metrics_listener, setting=METRICS_PORT, page="metrics")
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=partial(Connection, limit=limit),  # type: ignore[arg-type]  # called, never subclassed
        ws="none",
        lifespan="on",
        log_config=None,  # uvicorn logs through the root logger, as JSON
        access_log=False,  # `RequestLog` writes one line a request
        server_header=False,
        proxy_headers=False,  # the client's address is not used
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=settings.shutdown_timeout_s,
    )

    def started() -> None:
        runtime.collections.announce(url_of(listener))
        on_start(url_of(listener))

    server = Server(config, runtime, on_start=started)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` ignores it
        signal.signal(signal.SIGHUP, server.handle_exit)
    server.run(sockets=sockets)


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
