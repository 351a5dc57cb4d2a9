"""Lets pages of other origins ask, as CROSSLET_CORS_ORIGINS says. Knows CORS; knows no route's work."""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from service.http.responses import json_response
from service.http.routes.openapi import COST_HEADERS, ERROR_HEADERS, EVERY_ANSWER

ANY = "*"
EXPOSED = sorted({*EVERY_ANSWER, *COST_HEADERS}.union(*ERROR_HEADERS.values()))  # what a page's script may read


class Cors(CORSMiddleware):
    """Answers preflights, which never have a key, and puts CORS' headers on every other answer, errors too.

    Keys come in a header that scripts set, so no cookie is asked for.
    """

    def __init__(self, app: ASGIApp, *, origins: Collection[str], methods: Collection[str]) -> None:
        """origins: as browsers write them; `*` is any.  methods: of all routes."""
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=methods,
            allow_headers=["*"],  # those asked for: `*` itself would leave out Authorization
            allow_private_network=ANY not in origins,
            expose_headers=EXPOSED,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """The answer to a preflight; a refusal has the body of all errors."""
        answer = super().preflight_response(request_headers)
        if answer.status_code < 400:
            return answer
        what = bytes(answer.body).decode().removeprefix("Disallowed CORS ")
        sentence = f"a page may not ask so from another origin; not allowed: {what} (CROSSLET_CORS_ORIGINS)"
        refusal = json_response({"error": sentence, "error_type": "Validation"}, status=answer.status_code)
        kept = ("vary", "access-control-allow-origin")
        refusal.headers.update({name: value for name, value in answer.headers.items() if name in kept})
        return refusal
