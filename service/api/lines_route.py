"""PUT /documents with a document a line: reads the body while it arrives. Knows the route; `Upload` stores."""

import asyncio

from fastapi import Request, Response
from starlette.routing import Match
from starlette.types import Message, Scope

from service.api.embedder import Embedder
from service.api.json_route import JsonRoute
from service.api.policy import Access, Body, access
from service.api.request import RuntimeDependency, is_ndjson
from service.api.responses import json_response
from service.api.uploads import Upload


class LinesRoute(JsonRoute):
    """The route of bodies with a document a line, which only their content-type tells from others."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match requests with such a body alone."""
        return super().matches(scope) if is_ndjson(scope) else (Match.NONE, {})


@access(Access.WRITE, body=Body.LINES)
async def put_lines(request: Request, runtime: RuntimeDependency) -> Response:
    """Store documents while they arrive, a line each; the answer comes after the last."""
    embedder = Embedder(Request(request.scope, _nothing))
    report = await Upload(runtime, embedder).run(request.stream())
    return json_response(report.answer, headers=report.headers)


async def _nothing() -> Message:
    """Receive nothing: the body is read by the upload, which notices when the client leaves."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")
