"""Runs the application in uvicorn and ends it in order. Knows signals; knows nothing about requests.

On SIGTERM, SIGINT, or the SIGHUP of a terminal that closes: /ready turns 503 at once, requests are still taken for
`drain_delay_s` (until load balancers have noticed), then listening ends, accepted requests finish, and the process
exits with 0. A second signal skips the wait.
"""

import signal
import socket
import time
from functools import partial
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from service.http.app import create_app, create_metrics_app
from service.http.connection import Connection
from service.http.listener import METRICS_PORT, listen
from service.http.metrics_port import MetricsPort
from service.process.descriptors import connection_limit
from service.process.memory import settle
from service.runtime import Runtime


class Server(uvicorn.Server):
    """uvicorn's server with a drain before its own shutdown."""

    def __init__(self, config: uvicorn.Config, runtime: Runtime) -> None:
        super().__init__(config)
        self._runtime = runtime
        self._exit_at_s: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the drain. The signal is not raised again at the end: this exit is the wanted one."""
        if self._exit_at_s is None:
            self._runtime.lifecycle.is_draining = True
            self._exit_at_s = time.monotonic() + self._runtime.settings.drain_delay_s
        elif self.should_exit:
            self.force_exit = True
        else:
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """End listening when the drain is over; uvicorn asks ten times a second."""
        if self._exit_at_s is not None and time.monotonic() >= self._exit_at_s:
            self.should_exit = True
        return await super().on_tick(counter)


def serve(runtime: Runtime, listener: socket.socket, metrics_listener: socket.socket | None = None) -> None:
    """Serve on bound sockets until a signal; returns after the last accepted request.

    Raises: StartError: another process has come to listen on the port meanwhile.
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
        log_config=None,  # uvicorn's records go to the root logger, as JSON
        access_log=False,  # one line a request is ours
        server_header=False,
        proxy_headers=False,  # nothing asks who the client is
        timeout_graceful_shutdown=settings.shutdown_timeout_s,
    )
    server = Server(config, runtime)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` ignores it
        signal.signal(signal.SIGHUP, server.handle_exit)
    server.run(sockets=sockets)
