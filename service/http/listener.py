"""Takes the port and opens it. Knows sockets and what an operator reads; imports nothing that takes time."""

import errno
import logging
import socket

from service.errors import StartError

METRICS_PORT = "CROSSLET_METRICS_PORT"
BACKLOG = 2048  # connections that the system holds until they are taken; fewer, and clients of a burst wait a minute

logger = logging.getLogger(__name__)


def bound_socket(host: str, port: int, *, setting: str = "CROSSLET_PORT") -> socket.socket:
    """A socket that has the port and does not listen yet: a start that cannot have it ends before the model is loaded.

    setting: of the port, for messages.
    Raises: StartError: the port is in use, or the address is none of this machine's.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart need not wait for old connections
    try:
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        if exc.errno == errno.EADDRINUSE:
            raise StartError(f"port {port} is in use ({setting})") from exc
        raise StartError(f"cannot listen on {host}, port {port}: {exc.strerror} (CROSSLET_HOST, {setting})") from exc
    return listener


def listen(listener: socket.socket, *, setting: str = "CROSSLET_PORT", page: str = "docs") -> None:
    """Open the port: two processes may be bound to it, only one can listen, and uvloop would not say so."""
    host, port = listener.getsockname()[:2]
    try:
        listener.listen(BACKLOG)
    except OSError as exc:
        raise StartError(f"port {port} is in use ({setting})") from exc
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    logger.info("listening", extra={"url": url, page: f"{url}/{page}"})
