"""Allows requests from pages of other origins (CORS), as CROSSLET_CORS_ORIGINS says."""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from service.api.origins import ANY
from service.api.responses import json_response
from service.api.routes.openapi import COST_HEADERS, ERROR_HEADERS, EVERY_ANSWER, SCORE_HEADERS

# Headers that scripts may read.
EXPOSED = sorted({*EVERY_ANSWER, *COST_HEADERS, *SCORE_HEADERS}.union(*ERROR_HEADERS.values()))


class Cors(CORSMiddleware):
    """Answers preflights, which carry no key, and adds CORS headers to every other answer, errors included.

    Scripts send keys in a header, so credentials (cookies) are not allowed.
    """

    def __init__(self, app: ASGIApp, *, origins: Collection[str], methods: Collection[str]) -> None:
        """origins: as browsers send them; `*` means any.  methods: those of all routes."""
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=methods,
            allow_headers=["*"],  # Starlette echoes the requested headers; a literal `*` would exclude Authorization
            allow_private_network=ANY not in origins,
            expose_headers=EXPOSED,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer a preflight; a refusal has the same body as every error."""
        answer = super().preflight_response(request_headers)
        if answer.status_code < 400:
            return answer
        what = bytes(answer.body).decode().removeprefix("Disallowed CORS ")
        sentence = f"this cross-origin request is not allowed because of its {what} (CROSSLET_CORS_ORIGINS)"
        refusal = json_response({"error": sentence, "error_type": "Validation"}, status=answer.status_code)
        kept = ("vary", "access-control-allow-origin")
        refusal.headers.update({name: value for name, value in answer.headers.items() if name in kept})
        return refusal
