"""Finds the route of a path and method, and refuses methods and query parameters that no route takes.

A trailing slash is ignored rather than redirected: behind a proxy, a redirect might name the wrong scheme. Where the
path ends in an id, the slash is part of the id. HEAD is handled as GET; the server drops the body.
"""

from collections.abc import Collection, Iterable, Iterator
from urllib.parse import parse_qsl

from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import InvalidInput, MethodNotAllowed
from service.http.responses import error_response

LONGEST_NAME = 64  # characters of an unknown parameter's name in a message


class Resources:
    """The middleware around FastAPI's router: passes each path and method on in one spelling."""

    def __init__(self, app: ASGIApp, *, routes: Iterable[Route | Mount], strict: Collection[Route | Mount]) -> None:
        """strict: the routes that refuse unknown query parameters."""
        self._app = app
        self._routes = [(route, isinstance(route, Mount) or route.path.endswith(":path}")) for route in routes]
        self._parameters = {id(route): _query_parameters(route) for route in strict}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to its route, or answer 405, 422 or an OPTIONS request."""
        found = list(self._found(scope["path"])) if scope["type"] == "http" else []
        if not found:
            await self._app(scope, receive, send)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route, path = next(((route, path) for route, path in found if method in _methods(route)), found[0])
        scope["route"] = route  # for metrics and log
        refusal = self._refusal(route, scope["query_string"])
        if method not in _methods(route):
            await _other_methods(scope, [route for route, _ in found])(scope, receive, send)
        elif refusal is not None:
            await error_response(path, refusal)(scope, receive, send)
        else:
            # A copy: the server needs the original method to handle HEAD.
            await self._app({**scope, "path": path, "method": method}, receive, send)

    def _found(self, path: str) -> Iterator[tuple[Route | Mount, str]]:
        """Yield the routes of a path, whatever their methods, each with the path as the route spells it."""
        both = dict.fromkeys((path, path.removesuffix("/") or "/"))
        for route, ends_in_id in self._routes:
            for spelling in (path,) if ends_in_id else both:
                match = route.path_regex.match(spelling)
                if match and all(match.groupdict().values()):  # an id is never empty
                    yield route, spelling

    def _refusal(self, route: Route | Mount, query_string: bytes) -> InvalidInput | None:
        known = self._parameters.get(id(route)) if query_string else None
        if known is None:
            return None
        given = [name for name, _ in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)]
        unknown = next((name for name in given if name not in known), None)
        if unknown is None:
            return None
        takes = f"this route takes {', '.join(known)}" if known else "this route takes none"
        return InvalidInput(f'the query parameter "{unknown[:LONGEST_NAME]}" is unknown; {takes}')


def spellings(path: str) -> set[str]:
    """Return the spellings of a parameterless path: with and without a trailing slash."""
    return {path, f"{path.removesuffix('/')}/"}


def _methods(route: Route | Mount) -> set[str]:
    return {"GET"} if isinstance(route, Mount) else route.methods or set()  # a mount serves static files


def _other_methods(scope: Scope, routes: list[Route | Mount]) -> Response:
    """Answer OPTIONS, or a method that none of the path's routes takes."""
    methods = {"OPTIONS"}.union(*map(_methods, routes))
    allow = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
    if scope["method"] == "OPTIONS":
        return Response(status_code=204, headers={"allow": allow})
    return error_response(
        scope["path"], MethodNotAllowed(f"the method is {scope['method']}; allowed are {allow}", allow)
    )


def _query_parameters(route: Route | Mount) -> list[str]:
    if not isinstance(route, APIRoute):
        return []
    return [one.alias for one in get_flat_params(route.dependant) if isinstance(one.field_info, Query)]
