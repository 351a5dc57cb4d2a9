"""Who may ask what: keys, host names and origins, checked before a body is read; and CORS.

A page of a foreign name can point that name at this machine (DNS rebinding). Its browser then takes the service for the
page's own server, and only Host tells.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from fastapi import Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.policy import Access, Reach
from service.api.request import header
from service.api.responses import error_response, json_response
from service.api.routes.openapi import COST_HEADERS, ERROR_HEADERS, EVERY_ANSWER, SCORE_HEADERS
from service.api.routing import RouteMatch
from service.documents.names import DEFAULT_NAME
from service.errors import Forbidden, MalformedHead, Misdirected, ServiceError, Unauthorized
from service.keys import FULL, NO_DOCUMENTS, Grant

# For OpenAPI alone, so that /docs can send a key: `AccessCheck` checks, before a body is read.
BEARER = Security(HTTPBearer(auto_error=False, description="A key of CROSSLET_API_KEYS; none if none is set."))
REMEMBERED_HOSTS = 256
ANY = "*"  # of CROSSLET_CORS_ORIGINS
HOST = re.compile(r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]*)?")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
# Headers that scripts may read.
EXPOSED = sorted({*EVERY_ANSWER, *COST_HEADERS, *SCORE_HEADERS}.union(*ERROR_HEADERS.values()))


class AccessCheck:
    """Requires of each request what its route's `Policy` says: a key, or a known Host where there are no keys.

    Read-only keys, and pages of other origins, may neither change nor back up documents. Keys of some collections reach
    no other. The request's state then has what it may reach, as `grant`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Mapping[str, Grant] | None = None,
        metrics_open: bool = True,
        hosts: Collection[str] | None,
        origins: Collection[str] = (),
    ) -> None:
        """keys: None: there are none.  hosts: names that Host may hold without keys; None: any.  origins: of CORS."""
        self._app = app
        self._grants = [(_digest(key.encode("utf-8", "surrogateescape")), grant) for key, grant in (keys or {}).items()]
        self._keyless = {Access.PROBE, Access.PUBLIC} | ({Access.METRICS} if metrics_open else set())
        self._origins = origins
        self._is_known = lru_cache(REMEMBERED_HOSTS)(lambda host: hosts is None or is_known_host(host, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 400, 401, 403 or 421."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await error_response(scope["path"], refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ServiceError | None:
        match: RouteMatch = scope["route_match"]
        access = match.policy.access
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1 or (not hosts and scope["http_version"] != "1.0"):
            return MalformedHead(f"the request has {len(hosts)} Host headers; HTTP/1.1 needs exactly one")
        grant: Grant | None = FULL
        if self._grants and access in self._keyless:
            grant, refusal = NO_DOCUMENTS, None
        elif self._grants:
            grant = self._grant_of(scope)
            refusal = _key_refusal(match, grant)
        else:
            refusal = None if access is Access.PROBE else self._host_refusal(hosts)
        scope.setdefault("state", {})["grant"] = grant or NO_DOCUMENTS
        if refusal is None and access is Access.WRITE and is_of_another_origin(scope, self._origins):
            return Forbidden(
                "a page of another origin may neither change nor back up documents; allow its origin "
                "(CROSSLET_CORS_ORIGINS), or have the proxy pass Host on"
            )
        return refusal

    def _host_refusal(self, hosts: list[bytes]) -> ServiceError | None:
        if not hosts or self._is_known(hosts[0].decode("latin-1")):
            return None
        return Misdirected(
            "without keys, Host must be an IP address, localhost or a name of CROSSLET_ALLOWED_HOSTS; add the URL's "
            "host name there, or set keys (CROSSLET_API_KEYS)"
        )

    def _grant_of(self, scope: Scope) -> Grant | None:
        """Return what the request's key may reach; None: it has no known key."""
        given = header(scope, b"authorization")
        scheme, _, key = given.partition(" ")
        bare = given if scheme.lower() != "bearer" else key  # LlamaIndex's client for TEI sends the key alone
        digest = _digest(bare.strip(" \t").encode("latin-1"))  # the bytes as sent
        # Every known key is compared, so that the time does not tell which one matches.
        matching = [grant for known, grant in self._grants if hmac.compare_digest(digest, known)]
        return matching[0] if matching else None


def _key_refusal(match: RouteMatch, grant: Grant | None) -> ServiceError | None:
    if grant is None:
        return Unauthorized("send a known key: 'Authorization: Bearer <key>' (CROSSLET_API_KEYS)")
    writes = match.policy.access is Access.WRITE
    if writes and grant.write == NO_DOCUMENTS.write:
        return Forbidden(
            "this key may read and search, but neither change nor back up documents (CROSSLET_READ_API_KEYS)"
        )
    if _reaches(match, grant, writes=writes):
        return None
    verb, names = (
        ("write", grant.write) if writes else ("read", (grant.read or frozenset()) | (grant.write or frozenset()))
    )
    listed = "all collections" if names is None else ", ".join(sorted(names)) or "none"
    what = "this collection" if match.policy.reach is Reach.COLLECTION else "all collections, which this route is about"
    return Forbidden(f"this key may not {verb} {what}; it may {verb}: {listed} (CROSSLET_API_KEYS)")


def _reaches(match: RouteMatch, grant: Grant, *, writes: bool) -> bool:
    reach = match.policy.reach
    if reach is Reach.COLLECTION:
        name = match.path_parameters.get("collection", DEFAULT_NAME)
        return grant.may_write(name) if writes else grant.may_read(name)
    if reach is Reach.ALL:
        return grant.writes_all if writes else grant.reads_all
    return True


def _digest(key: bytes) -> bytes:
    # Digests have equal length, so comparing them does not reveal a key's length.
    return hashlib.sha256(key).digest()


def is_known_host(host: str, names: Collection[str]) -> bool:
    """Whether Host is an IP address or one of the names (in lower case), with any port.

    Rebinding needs a name, so addresses are safe.
    """
    parts = HOST.fullmatch(host)
    if parts is None:
        return False
    if parts["name"] and parts["name"].lower().removesuffix(".") in names:
        return True
    with suppress(ValueError):
        IPv6Address(parts["ipv6"]) if parts["ipv6"] else IPv4Address(parts["name"])
        return True
    return False


def is_of_another_origin(scope: Scope, allowed: Collection[str]) -> bool:
    """Whether the request comes from a page whose origin is neither the service's own nor allowed.

    Only browsers send these headers. Scripts cannot set Sec-Fetch-Site, and it holds although a proxy changed Host. Old
    browsers, and pages without TLS, do not send it: then Origin and Host are compared, without their schemes, since a
    proxy may have ended TLS. X-Forwarded-Host is not read: clients can send one.
    """
    origin, site = header(scope, b"origin").lower(), header(scope, b"sec-fetch-site")
    if ANY in allowed or origin in allowed or site == "same-origin":
        return False
    if site not in {"", "none"}:
        return True
    if not origin:
        return False
    scheme, _, authority = origin.partition("://")
    port = DEFAULT_PORTS.get(scheme, "")
    is_own = authority.removesuffix(port) == header(scope, b"host").lower().removesuffix(port)
    return not authority or not is_own  # no authority: `null`, of a sandboxed page or a file


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
        reason = bytes(answer.body).decode().removeprefix("Disallowed CORS ")
        sentence = f"this cross-origin request is not allowed because of its {reason} (CROSSLET_CORS_ORIGINS)"
        kept = {"vary", "access-control-allow-origin"}
        copied = {name: value for name, value in answer.headers.items() if name in kept}
        return json_response({"error": sentence, "error_type": "Validation"}, status=answer.status_code, headers=copied)
