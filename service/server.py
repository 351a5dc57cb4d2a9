"""Runs the application in uvicorn and ends it in order. Knows signals; knows nothing about requests.

On SIGTERM or SIGINT: /ready turns 503 at once, requests are still taken for `drain_delay_s` (until load balancers have
noticed), then listening ends, accepted requests finish, and the process exits with 0. A second signal skips the wait.
"""

import errno
import logging
import socket
import time
from types import FrameType

import uvicorn

from service.app import create_app
from service.connection import Connection
from service.errors import StartError
from service.memory import settle
from service.runtime import Runtime

BACKLOG = 2048  # connections that the system holds until they are taken

logger = logging.getLogger(__name__)


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


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that has the port and does not listen yet: a start that cannot have it ends before the model is loaded.

    Raises: StartError: the port is in use, or the address is none of this machine's.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart need not wait for old connections
    try:
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        if exc.errno == errno.EADDRINUSE:
            raise StartError(f"port {port} is in use (CROSSLET_PORT)") from exc
        raise StartError(
            f"cannot listen on {host}, port {port}: {exc.strerror} (CROSSLET_HOST, CROSSLET_PORT)"
        ) from exc
    return listener


def serve(runtime: Runtime, listener: socket.socket) -> None:
    """Serve on a bound socket until a signal; returns after the last accepted request.

    Raises: StartError: another process has come to listen on the port meanwhile.
    """
    settings = runtime.settings
    app = create_app(runtime)
    settle()
    _listen(listener)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,  # uvicorn's records go to the root logger, as JSON
        access_log=False,  # one line a request is ours
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_timeout_s,
    )
    Server(config, runtime).run(sockets=[listener])


def _listen(listener: socket.socket) -> None:
    """Open the port: two processes may be bound to it, only one can listen, and uvloop would not say so."""
    host, port = listener.getsockname()[:2]
    try:
        listener.listen(BACKLOG)
    except OSError as exc:
        raise StartError(f"port {port} is in use (CROSSLET_PORT)") from exc
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    logger.info("listening", extra={"url": url, "docs": f"{url}/docs"})
