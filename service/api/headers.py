"""Looks up a header in ASGI's raw list, which is faster than building a `Headers` object for one look-up."""

from starlette.types import Message, Scope


def header(scope: Scope | Message, name: bytes) -> str:
    """Return the first header of a lower-case name, or an empty string."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
