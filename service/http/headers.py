"""Looks up headers. Knows ASGI's raw list: making an object of it for one look costs more than the look."""

from starlette.types import Message, Scope


def header(scope: Scope | Message, name: bytes) -> str:
    """The first header of a name, which is in lower case; without one, an empty string."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
