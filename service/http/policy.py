"""What a route needs of a request: declared on each endpoint, enforced in auth.py."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, TypeVar

from starlette.routing import Mount, Route

ATTRIBUTE = "access"  # of an endpoint

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Access(Enum):
    """What a route needs of a request, from nothing to everything."""

    PROBE = auto()  # nothing: load balancers use host names of their own
    PUBLIC = auto()  # a known Host, no key: the answer is the same for everybody
    METRICS = auto()  # a known Host; a key if CROSSLET_METRICS_OPEN is false
    READ = auto()  # a known Host, any key: the route computes, reads or searches
    WRITE = auto()  # a known Host, a full key and no page of another origin: the route changes or copies documents


def access(declared: Access) -> Callable[[Endpoint], Endpoint]:
    """Declare an endpoint's access. Stands below the router's decorator."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, ATTRIBUTE, declared)
        return endpoint

    return declare


def access_of(route: Route | Mount) -> Access:
    """Return a route's access.

    Raises: AttributeError: its endpoint declares none; the service does not start.
    """
    if isinstance(route, Mount):
        return Access.PUBLIC  # static files
    declared: Access = getattr(route.endpoint, ATTRIBUTE)
    return declared
