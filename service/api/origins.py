"""Reads Host, Origin and Sec-Fetch-Site: under which name, and from which page, a browser asks.

A page of a foreign name can point that name at this machine (DNS rebinding). Its browser then takes the service for the
page's own server, and only Host tells.
"""

import re
from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

from starlette.types import Scope

from service.api.headers import header

ANY = "*"  # of CROSSLET_CORS_ORIGINS
HOST = re.compile(r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]*)?")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


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
    """Whether a page asks that is neither the service's own nor of an allowed origin. Other clients send no Origin.

    Sec-Fetch-Site, which no script can set, also tells where a proxy has changed Host. Old browsers, and pages without
    TLS, do not send it. Then Origin and Host are compared without their schemes: a proxy may have ended TLS.
    X-Forwarded-Host is not read: clients can send one.
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
