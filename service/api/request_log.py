"""Gives each request an id, one log line and an entry in the metrics. Never reads a body."""

import asyncio
import itertools
import logging
import re
import secrets
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.request import RequestFacts, header
from service.api.responses import error_response, internal_error_response
from service.api.routing import RouteMatch, RouteTable
from service.errors import NotReady
from service.metrics import Metrics

REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
QUIET_ROUTES = frozenset({"/health", "/ready", "/metrics"})  # logged at DEBUG: they are probed every few seconds

PROCESS = secrets.token_hex(8)  # once: random bytes per request would be a system call per request
numbers = itertools.count(1)

logger = logging.getLogger(__name__)


class RequestLog:
    """The outermost middleware: finds the route, and gives every answer an id, a metric and a log line."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        table: RouteTable,
        answer_through: Callable[[ASGIApp], ASGIApp] = lambda answer: answer,
    ) -> None:
        """answer_through: middleware for this one's own answers (CORS), which other answers have passed already."""
        self._app = app
        self._metrics = metrics
        self._table = table
        self._answer_through = answer_through

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answer 500 to an unexpected exception."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = header(scope, b"x-request-id")
        facts = RequestFacts(given if REQUEST_ID.fullmatch(given) else f"{PROCESS}{next(numbers):016x}")
        scope.setdefault("state", {})["facts"] = facts
        scope["route_match"] = self._table.match(scope["method"], scope["path"])

        async def observed_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts.status = message["status"]
                message["headers"].append((b"x-request-id", facts.request_id.encode()))
            await send(message)

        try:
            await self._app(scope, receive, observed_send)
        except asyncio.CancelledError:  # not raised again: only the server's shutdown cancels a request
            if facts.status == 499:
                error = NotReady("the service shut down before the answer was ready (CROSSLET_SHUTDOWN_TIMEOUT_S)")
                await self._answer_through(error_response(scope["path"], error))(scope, receive, observed_send)
        except Exception:
            logger.exception("unexpected error", extra={"request_id": facts.request_id})
            if facts.status == 499:
                answer = internal_error_response(scope["path"])
                await self._answer_through(answer)(scope, receive, observed_send)
        finally:  # call_soon: the loop sends the answer first
            asyncio.get_running_loop().call_soon(self._record, scope, facts)

    def _record(self, scope: Scope, facts: RequestFacts) -> None:
        took_s = time.monotonic() - facts.started_at
        # The route's template: ids must not become labels.
        match: RouteMatch = scope["route_match"]
        route = "unmatched" if match.resource is None else match.resource.route.path
        self._metrics.requests.labels(route, str(facts.status)).inc()
        self._metrics.request_duration.labels(route).observe(took_s)
        if facts.search is not None:
            self._metrics.count_search(
                facts.search.collection, is_empty=facts.search.is_empty, is_slow=facts.search.is_slow
            )
        level = logging.DEBUG if route in QUIET_ROUTES and facts.status < 500 else logging.INFO
        logger.log(
            level,
            "request",
            extra={
                "request_id": facts.request_id,
                "method": scope["method"],
                "route": route,
                "status": facts.status,
                "texts": facts.texts,
                "tokens": facts.tokens,
                "ms": round(took_s * 1000, 2),
            },
        )
