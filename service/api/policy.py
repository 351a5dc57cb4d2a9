"""What a route needs of a request, and how it is called: declared on its endpoint, read by `RouteTable` alone."""

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
    METRICS = auto()  # a known Host; a key if CROSSLET_METRICS_OPEN says so
    READ = auto()  # a known Host, any key: the route computes, reads or searches
    WRITE = auto()  # a known Host, a key that may write and no page of another origin: it changes or copies documents


class Reach(Enum):
    """Which documents a route is about. It decides which collections a key must reach."""

    NOTHING = auto()  # none: the route computes
    COLLECTION = auto()  # those of the collection in the path, or of the default one
    REACHED = auto()  # those that the key reaches: the endpoint leaves the others out (`Runtime.grant`)
    ALL = auto()  # every collection: a key of some is refused


@dataclass(frozen=True)
class Policy:
    """What an endpoint declares, as its decorator.

    access: which requests it answers.
    reach: which documents it is about; a route that does not say is refused to keys of some collections.
    strict: refuse unknown query parameters; other routes ignore them, as TEI and OpenAI do.
    lines: the endpoint for bodies with one JSON document per line, which it reads while they arrive. All other bodies
        are read whole, within CROSSLET_MAX_BODY_BYTES, before an endpoint is called.
    """

    access: Access
    reach: Reach = Reach.ALL
    strict: bool = False
    lines: Callable[..., Any] | None = None

    def __call__(self, endpoint: Endpoint) -> Endpoint:
        """Declare this policy of an endpoint. Stands below the router's decorator."""
        setattr(endpoint, ATTRIBUTE, self)
        return endpoint


def policy_of(route: Route | Mount) -> Policy:
    """Return a route's policy.

    Raises: AttributeError: its endpoint declares none; the service does not start.
    """
    if isinstance(route, Mount):
        return Policy(Access.PUBLIC, Reach.NOTHING)  # static files
    declared: Policy = getattr(route.endpoint, ATTRIBUTE)
    return declared
