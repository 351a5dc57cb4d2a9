"""A port for a server in another process, which has to be told one before it can have it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A free loopback port that the system gives to nobody else meanwhile.

    A server that sets SO_REUSEADDR, as ours does, can bind it and listen all the same, for nobody listens here.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
