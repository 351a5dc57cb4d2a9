"""Gives each request a span (OpenTelemetry). Imported only where traces are on."""

import asyncio
import time

from opentelemetry.trace import Span, Status, StatusCode
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.request import RequestFacts
from service.api.request_log import QUIET_ROUTES
from service.api.routing import RouteMatch
from service.traces import Traces


class RequestTracing:
    """Stands outside `RequestLog`, which knows a request's route and status. Probes have no span."""

    def __init__(self, app: ASGIApp, *, traces: Traces) -> None:
        self._app = app
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on within its span."""
        if scope["type"] != "http" or scope["path"] in QUIET_ROUTES:
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with self._traces.request(scope["method"], headers) as span:
            try:
                await self._app(scope, receive, send)
            finally:  # call_soon: tokens are counted after the answer
                asyncio.get_running_loop().call_soon(_end, span, scope, time.time_ns())


def _end(span: Span, scope: Scope, ended_ns: int) -> None:
    facts: RequestFacts = scope["state"]["facts"]
    match: RouteMatch = scope["route_match"]
    if match.resource is not None:
        span.update_name(f"{scope['method']} {match.resource.route.path}")
        span.set_attribute("http.route", match.resource.route.path)  # the template: ids stay out
    span.set_attributes(
        {
            "http.request.method": scope["method"],
            "http.response.status_code": facts.status,
            "crosslet.request_id": facts.request_id,
            "crosslet.texts": facts.texts,
            "crosslet.tokens": facts.tokens,
        }
    )
    if facts.status >= 500:
        span.set_status(Status(StatusCode.ERROR))
    span.end(ended_ns)
