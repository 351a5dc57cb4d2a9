"""Finds the route of a request and reads its policy, once; refuses what no route takes; calls the route.

A trailing slash is ignored rather than redirected: behind a proxy, a redirect might name the wrong scheme. Where the
path ends in an id, the slash is part of the id. HEAD is handled as GET; the server drops the body.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.json_route import EndpointCall, JsonRoute, endpoint_call
from service.api.policy import Access, Policy, Reach, policy_of
from service.api.request import is_ndjson, replayed
from service.api.responses import error_response
from service.errors import InvalidInput, MalformedHead, MethodNotAllowed, NotFound

CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # no new document's id has one
CONTROL_REFUSED = (
    "the path has a control character; documents with one in their id are listed by GET /documents and removed by "
    "POST /documents/delete"
)
MOST_PARAMETERS = 100  # of a URL
LONGEST_NAME = 64  # characters of an unknown parameter's name in a message
JSON = (b"content-type", b"application/json")  # the header of an ordinary JSON request


class Resource:
    """A route of the application, and all that its endpoint declares."""

    def __init__(self, route: Route | Mount) -> None:
        """Raises: AttributeError: the endpoint declares no policy.  TypeError: it cannot be called without FastAPI."""
        self.route = route
        self.policy = policy_of(route)
        self.methods = {"GET"} if isinstance(route, Mount) else route.methods or set()  # a mount serves static files
        self.ends_in_id = isinstance(route, Mount) or route.path.endswith(":path}")
        self.query_names: list[str] | None = None  # of the parameters it takes; None: any
        if isinstance(route, APIRoute) and self.policy.strict:
            flat = get_flat_params(route.dependant)
            self.query_names = [parameter.alias for parameter in flat if isinstance(parameter.field_info, Query)]
        self.fast: EndpointCall | None = None  # ADR 6
        if isinstance(route, JsonRoute) and route.methods == {"POST"}:
            self.fast = endpoint_call(route.endpoint)
        self.lines = endpoint_call(self.policy.lines) if self.policy.lines is not None else None

    def path_parameters(self, path: str) -> dict[str, str] | None:
        """Return the parameters in a path, or None if it is not this route's."""
        match = self.route.path_regex.match(path)
        return match.groupdict() if match and all(match.groupdict().values()) else None  # an id is never empty


@dataclass(frozen=True)
class RouteMatch:
    """Where a request goes, and what it needs for that.

    resource: None if no route has the path. If none takes the method, the path's first.
    path: as the route spells it.
    methods: of all routes of the path.
    """

    resource: Resource | None
    path: str
    methods: frozenset[str]
    policy: Policy
    path_parameters: dict[str, str] = field(default_factory=dict)


class RouteTable:
    """The routes of an application, each found once a request, for the log, the access check and the answer."""

    def __init__(self, routes: Iterable[Route | Mount]) -> None:
        self._resources = [Resource(route) for route in routes]
        self._fixed = {
            (method, spelling): self._search(method, spelling)
            for resource in self._resources
            if isinstance(resource.route, Route) and not resource.route.param_convertors
            for method in resource.methods
            for spelling in (resource.route.path, f"{resource.route.path.removesuffix('/')}/")
        }

    def match(self, method: str, path: str) -> RouteMatch:
        """Return where a request goes. A path with a control character leads nowhere."""
        return self._fixed.get((method, path)) or self._search(method, path)

    def _search(self, method: str, path: str) -> RouteMatch:
        candidates = [] if CONTROL_CHARACTER.search(path) else list(self._of_path(path))
        methods = frozenset[str]().union(*(resource.methods for resource, _, _ in candidates))
        if method == "HEAD" or (method == "OPTIONS" and "GET" in methods):  # OPTIONS needs what reading needs
            method = "GET"
        for resource, spelling, parameters in candidates:
            if method in resource.methods:
                return RouteMatch(resource, spelling, methods, resource.policy, parameters)
        first, spelling = candidates[0][:2] if candidates else (None, path)
        return RouteMatch(first, spelling, methods, Policy(Access.READ, Reach.NOTHING))  # a refusal

    def _of_path(self, path: str) -> Iterator[tuple[Resource, str, dict[str, str]]]:
        """Yield the routes of a path, whatever their methods, each with the path as the route spells it."""
        both = dict.fromkeys((path, path.removesuffix("/") or "/"))
        for resource in self._resources:
            for spelling in (path,) if resource.ends_in_id else both:
                parameters = resource.path_parameters(spelling)
                if parameters is not None:
                    yield resource, spelling, parameters


def streams_lines(scope: Scope) -> bool:
    """Whether the body has one JSON document per line, and the route reads it while it arrives."""
    match: RouteMatch = scope["route_match"]
    return match.policy.lines is not None and is_ndjson(scope)


class Dispatch:
    """The innermost middleware: refuses what no route takes, and calls the others, directly or through FastAPI."""

    def __init__(self, app: ASGIApp, *, unknown: str) -> None:
        """unknown: the message for a path that no route has."""
        self._app = app
        self._unknown = unknown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request. Its body is complete, unless it is one of lines."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        match: RouteMatch = scope["route_match"]
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        answer: ASGIApp | None
        if match.resource is None:
            has_control = CONTROL_CHARACTER.search(match.path)
            error = MalformedHead(CONTROL_REFUSED) if has_control else NotFound(self._unknown)
            answer = error_response(match.path, error)
        elif method not in match.methods:
            answer = _method_refused(match, method)
        elif unknown := _unknown_parameter(match.resource, scope["query_string"]):
            answer = error_response(match.path, unknown)
        else:
            # A copy: the server needs the original method to handle HEAD.
            scope = {**scope, "path": match.path, "method": method, "path_params": match.path_parameters}
            answer, receive = await _called(match.resource, scope, receive)
        await (answer or self._app)(scope, receive, send)


def _method_refused(match: RouteMatch, method: str) -> Response:
    """Answer OPTIONS with the methods of the path, every other method with 405."""
    allow = ", ".join(sorted({"OPTIONS", *match.methods} | ({"HEAD"} if "GET" in match.methods else set())))
    if method == "OPTIONS":
        return Response(status_code=204, headers={"allow": allow})
    return error_response(match.path, MethodNotAllowed(f"the method is {method}; allowed are {allow}", allow))


def _unknown_parameter(resource: Resource, query_string: bytes) -> InvalidInput | None:
    """Return the refusal of a query parameter that a strict route does not take, or None."""
    known = resource.query_names
    if known is None or not query_string:
        return None
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return InvalidInput(f"the URL has more than {MOST_PARAMETERS} query parameters")
    given = [name for name, _ in pairs]
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return None
    takes = f"this route takes {', '.join(known)}" if known else "this route takes none"
    return InvalidInput(f'the query parameter "{unknown[:LONGEST_NAME]}" is unknown; {takes}')


async def _called(resource: Resource, scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
    """Call the endpoint directly where its policy says so.

    Returns: the answer, or None where FastAPI must call the route; and a `receive` that still has the body.
    """
    if resource.lines is not None and is_ndjson(scope):
        return await resource.lines.answer(Request(scope, receive)), receive
    if resource.fast is None or scope["query_string"] or JSON not in scope["headers"]:
        return None, receive
    message = await receive()
    answer = await resource.fast.answer(Request(scope, receive), message.get("body", b""))
    return answer, replayed(message, receive)


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
