"""What a route needs of a request and takes as its body: declared on each endpoint.

auth.py enforces the access, body_limit.py the body.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from starlette.routing import Mount, Route

ATTRIBUTE = "policy"  # of an endpoint

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Access(Enum):
    """What a route needs of a request, from nothing to everything."""

    PROBE = auto()  # nothing: load balancers use host names of their own
    PUBLIC = auto()  # a known Host, no key: the answer is the same for everybody
    METRICS = auto()  # a known Host; a key if CROSSLET_METRICS_OPEN is false
    READ = auto()  # a known Host, any key: the route computes, reads or searches
    WRITE = auto()  # a known Host, a full key and no page of another origin: the route changes or copies documents


class Body(Enum):
    """How a route takes its body."""

    WHOLE = auto()  # within CROSSLET_MAX_BODY_BYTES, read before the route begins
    LINES = auto()  # of any length, a line of JSON a document, read by the route while it arrives


@dataclass(frozen=True)
class Policy:
    """What an endpoint declares."""

    access: Access
    body: Body = Body.WHOLE


def access(needed: Access, *, body: Body = Body.WHOLE) -> Callable[[Endpoint], Endpoint]:
    """Declare an endpoint's policy. Stands below the router's decorator."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, ATTRIBUTE, Policy(needed, body))
        return endpoint

    return declare


def policy_of(route: Route | Mount) -> Policy:
    """Return a route's policy.

    Raises: AttributeError: its endpoint declares none; the service does not start.
    """
    if isinstance(route, Mount):
        return Policy(Access.PUBLIC)  # static files
    declared: Policy = getattr(route.endpoint, ATTRIBUTE)
    return declared
