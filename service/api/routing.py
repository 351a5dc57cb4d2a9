"""Finds the route of a path and method, and refuses paths, methods and query parameters that no route takes.

A trailing slash is ignored rather than redirected: behind a proxy, a redirect might name the wrong scheme. Where the
path ends in an id, the slash is part of the id. HEAD is handled as GET; the server drops the body.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.policy import Access, Policy, policy_of
from service.api.responses import error_response
from service.errors import InvalidInput, MalformedHead, MethodNotAllowed, NotFound, ServiceError

CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # no new document's id has one
LONGEST_NAME = 64  # characters of an unknown parameter's name in a message


@dataclass(frozen=True)
class RouteMatch:
    """Where a request goes, and what it needs for that."""

    route: Route | Mount | None  # None: no route has the path. If none takes the method, the path's first route
    path: str  # as the route spells it
    methods: frozenset[str]  # of all routes of the path
    policy: Policy


class RouteTable:
    """The routes of an application, each found once a request, for the log, the access check and the answer."""

    def __init__(self, routes: Iterable[Route | Mount]) -> None:
        self._routes = [(route, isinstance(route, Mount) or route.path.endswith(":path}")) for route in routes]
        self._fixed = {
            (method, spelling): self._search(method, spelling)
            for route, _ in self._routes
            if isinstance(route, Route) and not route.param_convertors
            for method in _methods(route)
            for spelling in spellings(route.path)
        }

    def match(self, method: str, path: str) -> RouteMatch:
        """Return where a request goes. A path with a control character leads nowhere."""
        return self._fixed.get((method, path)) or self._search(method, path)

    def _search(self, method: str, path: str) -> RouteMatch:
        found = [] if CONTROL_CHARACTER.search(path) else list(self._of_path(path))
        methods = frozenset[str]().union(*(_methods(route) for route, _ in found))
        if method == "HEAD" or (method == "OPTIONS" and "GET" in methods):  # OPTIONS needs what reading needs
            method = "GET"
        for route, spelling in found:
            if method in _methods(route):
                return RouteMatch(route, spelling, methods, policy_of(route))
        first, spelling = found[0] if found else (None, path)
        return RouteMatch(first, spelling, methods, Policy(Access.READ))

    def _of_path(self, path: str) -> Iterator[tuple[Route | Mount, str]]:
        """Yield the routes of a path, whatever their methods, each with the path as the route spells it."""
        both = dict.fromkeys((path, path.removesuffix("/") or "/"))
        for route, ends_in_id in self._routes:
            for spelling in (path,) if ends_in_id else both:
                match = route.path_regex.match(spelling)
                if match and all(match.groupdict().values()):  # an id is never empty
                    yield route, spelling


class Resources:
    """The middleware around FastAPI's router: passes each path and method on in one spelling."""

    def __init__(self, app: ASGIApp, *, unknown: str, strict: Collection[Route] = ()) -> None:
        """unknown: the message for a path that no route has.  strict: the routes that refuse unknown parameters."""
        self._app = app
        self._unknown = unknown
        self._parameters = {id(route): _query_parameters(route) for route in strict}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to its route, or answer 400, 404, 405, 422 or an OPTIONS request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found: RouteMatch = scope["route_match"]
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        refusal = self._refusal(found, method, scope)
        if refusal is not None:
            await error_response(found.path, refusal)(scope, receive, send)
        elif method not in found.methods:  # OPTIONS
            await Response(status_code=204, headers={"allow": _allow(found.methods)})(scope, receive, send)
        else:
            # A copy: the server needs the original method to handle HEAD.
            await self._app({**scope, "path": found.path, "method": method}, receive, send)

    def _refusal(self, found: RouteMatch, method: str, scope: Scope) -> ServiceError | None:
        if found.route is None and CONTROL_CHARACTER.search(found.path):
            return MalformedHead(
                "the path has a control character; documents with one in their id are listed by GET /documents and "
                "removed by POST /documents/delete"
            )
        if found.route is None:
            return NotFound(self._unknown)
        if method not in found.methods:
            allow = _allow(found.methods)
            message = f"the method is {method}; allowed are {allow}"
            return None if method == "OPTIONS" else MethodNotAllowed(message, allow)
        known = self._parameters.get(id(found.route)) if scope["query_string"] else None
        if known is None:
            return None
        given = [name for name, _ in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)]
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


def _allow(methods: Collection[str]) -> str:
    return ", ".join(sorted({"OPTIONS", *methods} | ({"HEAD"} if "GET" in methods else set())))


def _query_parameters(route: Route | Mount) -> list[str]:
    if not isinstance(route, APIRoute):
        return []
    return [one.alias for one in get_flat_params(route.dependant) if isinstance(one.field_info, Query)]


class PathPrefix:
    """The outermost middleware if a prefix is set. Paths without it pass unchanged: the proxy has stripped it."""

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        """prefix: like /a or /a/b; no route may begin with it."""
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on without the prefix."""
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._prefix}/"):
            path = scope["path"][len(self._prefix) :] or "/"
            scope = {**scope, "path": path, "raw_path": self._without(scope["raw_path"])}
        await self._app(scope, receive, send)

    def _without(self, raw_path: bytes) -> bytes:
        if raw_path.startswith(self._prefix.encode()):
            return raw_path[len(self._prefix) :] or b"/"
        return quote(unquote_to_bytes(raw_path)[len(self._prefix) :] or "/").encode()  # the prefix was percent-encoded
