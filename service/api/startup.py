"""Binds the port, and imports the server without what only /docs needs. Itself imports only what loads fast."""

import errno
import importlib.util
import logging
import socket

import pydantic

from service.errors import StartError
from service.process.memory import give_back_unused

PORT, METRICS_PORT = "--port, CROSSLET_PORT", "CROSSLET_METRICS_PORT"  # what sets them
BACKLOG = 2048  # connections waiting to be accepted; with fewer, clients in a burst may wait a minute

logger = logging.getLogger(__name__)


def bound_socket(host: str, port: int, *, setting: str = PORT) -> socket.socket:
    """Return a socket bound to the port but not yet listening, so that a taken port is noticed before the model loads.

    setting: the port's setting, for error messages.
    Raises: StartError: the port is in use, or the address is not one of this machine's.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # restart without waiting for old connections
    try:
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        if exc.errno == errno.EADDRINUSE:
            raise StartError(f"port {port} is in use; choose another ({setting})") from exc
        raise StartError(
            f"cannot listen on {host}, port {port}: {exc.strerror} (--host, CROSSLET_HOST, {setting})"
        ) from exc
    return listener


def url_of(listener: socket.socket, *, reached: bool = True) -> str:
    """Return the URL of a bound socket; of a socket on every address, by default the URL at which this machine is."""
    host, port = listener.getsockname()[:2]
    if reached:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(listener: socket.socket, *, setting: str = PORT, page: str = "docs") -> None:
    """Listen on a bound socket. Several processes may bind a port but only one can listen; uvloop does not report it.

    Raises: StartError: another process listens on the port.
    """
    try:
        listener.listen(BACKLOG)
    except OSError as exc:
        raise StartError(f"port {listener.getsockname()[1]} is in use; choose another ({setting})") from exc
    url = url_of(listener, reached=False)
    logger.info("listening", extra={"url": url, page: f"{url}/{page}"})


def check_mcp(what: str) -> None:
    """Raises: StartError: the SDK of MCP is not installed.  what: needs it."""
    if importlib.util.find_spec("mcp") is None:
        raise StartError(
            f"{what} needs the package mcp: pip install --require-hashes --no-deps -r requirements/mcp.txt, or "
            "`CROSSLET_MCP=true make serve`, or the image with LOCK=mcp.txt"
        )


def import_server() -> None:
    """Import `service.api.server` without building the validators of FastAPI's OpenAPI models, which only /docs needs.

    They take a quarter of FastAPI's import time. Models declared meanwhile inherit pydantic's `defer_build` and are
    built on first use.
    """
    pydantic.BaseModel.model_config["defer_build"] = True
    try:
        import fastapi  # noqa: F401
    finally:
        del pydantic.BaseModel.model_config["defer_build"]
    import service.api.server  # noqa: F401

    give_back_unused()  # here, beside the model's loading; what `settle` collects later is little
