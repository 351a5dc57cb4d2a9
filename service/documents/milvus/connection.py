"""A connection to Milvus: its collections by name, calls that wait while it starts, our errors, and its time."""

import importlib
import importlib.util
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

from service.documents.milvus.address import MilvusAddress
from service.errors import IndexUnavailable, NotFound, Overloaded, ServiceError, StartError, StorageFull

Consistency = Literal["session", "strong"]
STRONG = "Strong"  # a read sees every write acknowledged before it, by any service; it waits for Milvus' next tick
BOUNDED = "Bounded"  # a read sees what is some seconds old, and does not wait
STALENESS_MS = 1000  # the oldest state that other reads see of what other services write
CLOCK_S = 60  # for so long this machine measures time like Milvus
LOGICAL_BITS = 18  # of a timestamp of Milvus, below its milliseconds
# By default gRPC waits up to two minutes between reconnects, during which a recovered Milvus would go unused.
GRPC_OPTIONS = {"grpc.max_reconnect_backoff_ms": 1000, "grpc.use_local_subchannel_pool": 1}
RATE_LIMIT, FORCE_DENY = 8, 9  # Milvus' codes: rate limit exceeded; memory or disk full
NO_COLLECTION, NOT_LOADED = 100, 101
# Milvus starts: no service, no connection, no channel, no node; or it has not loaded the collection yet.
STARTING = {1, 2, NOT_LOADED, 501, 503, 901}
STARTING_RETRY_S = 0.25
KEYWORDS_FROM = (2, 5)  # sparse vectors that can be relied on
LOAD_TIMEOUT_S = 300  # a collection that is not in memory yet is read from object storage

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Clock:
    """A time in Milvus: its timestamp, and this machine's monotonic time before it was read.

    writes: of this service to a collection, that had ended.  last_write: a timestamp that none of them is after.
    """

    timestamp: int
    read_at: float
    writes: int
    last_write: int

    def oldest(self, staleness_ms: int) -> int:
        """Return the timestamp of the oldest state that a read may see now."""
        age_ms = int((time.monotonic() - self.read_at) * 1000) - staleness_ms
        return max(self.timestamp + (age_ms << LOGICAL_BITS), self.last_write)


class MilvusConnection:
    """A connection to a Milvus server, or to milvus-lite in this process. Thread-safe."""

    def __init__(
        self,
        address: MilvusAddress,
        *,
        token: str = "",
        timeout_s: float = 10.0,
        consistency: Consistency = "session",
    ) -> None:
        """Connect.

        Args:   token: user:password or a key.
                consistency: what a read sees of other services' writes, all but those of the last second, or all.
        Raises: StartError: pymilvus is missing, or Milvus cannot be used.
        """
        self.pymilvus = _pymilvus(address)
        import grpc  # after it: neither may be installed

        self._clock_request = importlib.import_module("pymilvus.grpc_gen.milvus_pb2").AllocTimestampRequest()
        self.errors: tuple[type[Exception], ...] = (self.pymilvus.MilvusException, grpc.RpcError)
        self.shown = address.shown
        self.is_lite = address.is_lite
        self.timeout_s = timeout_s
        self._lite_path = address.uri if address.is_lite else ""
        self._is_strong = consistency == "strong"
        try:
            self.client: Any = self.pymilvus.MilvusClient(
                address.uri,
                db_name=address.database,
                token=token,
                timeout=timeout_s,
                dedicated=True,
                grpc_options=GRPC_OPTIONS,
            )
        except self.errors as exc:
            reason = reason_of(exc)
            raise StartError(f"Milvus at {self.shown} cannot be used ({reason}); CROSSLET_INDEX names it") from exc

    def close(self) -> None:
        """Close the connection; milvus-lite, which runs in this process, closes its file."""
        self.client.close()
        if self._lite_path:
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(self._lite_path)

    @cached_property
    def version(self) -> str:
        """What Milvus says its version is."""
        return str(self.call(self.client.get_server_version)).removeprefix("v")

    @property
    def has_keywords(self) -> bool:
        """Whether Milvus has sparse vectors of terms."""
        if self.is_lite:
            return True
        numbers = re.match(r"(\d+)\.(\d+)", self.version)
        return numbers is None or tuple(map(int, numbers.groups())) >= KEYWORDS_FROM

    def names(self) -> list[str]:
        """Return the names of Milvus' collections."""
        return [str(name) for name in self.call(self.client.list_collections)]

    def exists(self, name: str) -> bool:
        """Return whether Milvus has a collection."""
        return bool(self.call(self.client.has_collection, name))

    def create(self, name: str, schema: Any, **options: Any) -> None:
        """Make a collection of Milvus, unless another service is faster. With `index_params` Milvus loads it, too."""
        create = self.client.create_collection
        try:
            self.call(create, name, schema=schema, consistency_level=STRONG, **options)
        except IndexUnavailable:
            if not self.exists(name):
                raise

    def drop(self, name: str) -> None:
        """Remove a collection of Milvus."""
        self.call(self.client.drop_collection, name)

    def now(self, known: Clock | None, writes: int) -> Clock | None:
        """Return what time it is in Milvus; None: it does not say, or reads see everything anyway.

        known: an earlier answer.  writes: of this service to a collection, that have ended.
        """
        read_at = time.monotonic()
        if self._is_strong or self.is_lite:
            return None
        if known is not None and known.writes == writes and read_at - known.read_at < CLOCK_S:
            return known
        try:
            stub = self.client._get_connection()._stub
            timestamp: int = stub.AllocTimestamp(self._clock_request, timeout=self.timeout_s).timestamp
        except self.errors:  # milvus-lite as a server has no clock
            return None
        last_write = known.last_write if known is not None and known.writes == writes else timestamp
        return Clock(timestamp, read_at, writes, last_write)

    def call(
        self, method: Callable[..., T], *positional: object, timeout: float | None = None, **arguments: object
    ) -> T:
        """Call a method of the client. While Milvus starts, try again until the time is up.

        timeout: in seconds, if it is another than the connection's.

        Raises: IndexUnavailable, Overloaded, StorageFull.  NotFound: Milvus has no such collection.
        """
        until = time.monotonic() + (timeout or self.timeout_s)
        while True:
            left_s = max(until - time.monotonic(), STARTING_RETRY_S)
            try:
                return method(*positional, timeout=left_s, **arguments)
            except self.errors as exc:
                code = getattr(exc, "code", None)  # of Milvus a number; gRPC's own errors have a method
                if code not in STARTING or time.monotonic() + STARTING_RETRY_S > until:
                    raise self._error(code, exc) from exc
                if code == NOT_LOADED and positional:
                    self._load(str(positional[0]), until)
            time.sleep(STARTING_RETRY_S)

    def _load(self, name: str, until: float) -> None:
        """Have Milvus load a collection, which it does by itself if it was loaded before a restart."""
        try:
            self.client.load_collection(name, timeout=max(until - time.monotonic(), STARTING_RETRY_S))
        except self.errors as exc:
            logger.warning("Milvus did not load the collection", extra={"reason": reason_of(exc)})

    def _error(self, code: object, exc: Exception) -> ServiceError:
        reason = reason_of(exc)  # names fields and collections; expressions hold no user's text
        if code == NO_COLLECTION:
            return NotFound("there is no such collection; it was dropped, or the first PUT to its documents makes it")
        logger.warning("Milvus refused or did not answer", extra={"address": self.shown, "reason": reason})
        if code == RATE_LIMIT:
            return Overloaded(f"Milvus at {self.shown} takes no more requests now; try again", retry_after_s=1)
        if code == FORCE_DENY:
            return StorageFull(f"Milvus at {self.shown} is out of memory or disk space (CROSSLET_INDEX)")
        if code in STARTING:
            return IndexUnavailable(
                f"Milvus at {self.shown} is starting or unreachable after {self.timeout_s:g} s ({reason}); try again "
                "later (CROSSLET_INDEX, CROSSLET_INDEX_TIMEOUT_S)"
            )
        return IndexUnavailable(
            f"Milvus at {self.shown} refused, or did not answer within {self.timeout_s:g} s; "
            "documents are unavailable now (CROSSLET_INDEX, CROSSLET_INDEX_TIMEOUT_S)"
        )


def _pymilvus(address: MilvusAddress) -> Any:
    missing = [name for name in ("pymilvus", "grpc") if importlib.util.find_spec(name) is None]
    if missing:
        raise StartError(
            "CROSSLET_INDEX names a Milvus, which needs pymilvus: "
            "pip install --require-hashes --no-deps -r requirements/milvus.txt, or the image with LOCK=milvus.txt"
        )
    if address.is_lite and importlib.util.find_spec("milvus_lite") is None:
        raise StartError("CROSSLET_INDEX names a file of milvus-lite: `make setup-dev` in a checkout installs it")
    import pymilvus  # here, to save memory and start-up time without Milvus: it imports pandas

    # It logs each error, and each try, and milvus-lite what it lacks; our own lines carry the reason.
    for name in ("pymilvus", "grpc._server"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus


def reason_of(exc: Exception) -> str:
    """Return the first line of Milvus' or gRPC's message."""
    details = getattr(exc, "details", None)
    text = getattr(exc, "message", "") or (str(details()) if callable(details) else str(exc))
    return text.strip().split("\n")[0] or type(exc).__name__
