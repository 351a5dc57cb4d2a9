"""A connection to one Milvus collection, with timeouts and our errors.

B queries, D dims
"""

import importlib
import importlib.util
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from service.documents.document import Vectors
from service.documents.milvus.address import MilvusAddress
from service.documents.milvus.rows import MAX_ID_BYTES, MAX_TEXT_BYTES, MAX_TOKENS, TOKEN_CHARS, MilvusRow
from service.errors import IndexUnavailable, Overloaded, ServiceError, StartError, StorageFull, StoreError

SCHEMA_VERSION = 3
LOAD_TIMEOUT_S = 300  # a collection that is not in memory yet is read from object storage
Consistency = Literal["session", "strong"]
STRONG = "Strong"  # a read sees every write acknowledged before it, by any service; it waits for Milvus' next tick
STALENESS_MS = 1000  # the oldest state that other reads see of what other services write
CLOCK_S = 60  # for so long this machine measures time like Milvus
LOGICAL_BITS = 18  # of a timestamp of Milvus, below its milliseconds
# By default gRPC waits up to two minutes between reconnects, during which a recovered Milvus would go unused.
GRPC_OPTIONS = {"grpc.max_reconnect_backoff_ms": 1000, "grpc.use_local_subchannel_pool": 1}
RATE_LIMIT, FORCE_DENY = 8, 9  # Milvus' codes: rate limit exceeded; memory or disk full
NOT_LOADED = 101
# Milvus starts: no service, no connection, no channel, no node; or it has not loaded the collection yet.
STARTING = {1, 2, NOT_LOADED, 501, 503, 901}
STARTING_RETRY_S = 0.25

logger = logging.getLogger(__name__)

QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"?')

ScoredRows = list[tuple[float, MilvusRow]]  # (inner product, row)
T = TypeVar("T")


@dataclass(frozen=True)
class _Clock:
    """A time in Milvus: its timestamp, and this machine's monotonic time before it was read.

    writes: of this service, that had ended.  last_write: a timestamp that none of them is after.
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
    """A connection to the collection of one model. Thread-safe."""

    def __init__(
        self,
        address: MilvusAddress,
        *,
        fingerprint: str,
        dim: int,
        token: str = "",
        timeout_s: float = 10.0,
        consistency: Consistency = "session",
        read_only: bool = False,
    ) -> None:
        """Connect, and create the collection if there is none.

        Args:   token: user:password or a key.  read_only: the collection must exist.
                consistency: what a read sees of other services' writes, those of the last second or all.
        Raises: StartError: pymilvus is missing, or Milvus cannot be used.
                StoreError: the collection belongs to another model or version.
        """
        pymilvus = _pymilvus(address)
        import grpc  # after it: neither may be installed

        self._no_options = importlib.import_module("pymilvus.grpc_gen.milvus_pb2").AllocTimestampRequest()
        self._errors: tuple[type[Exception], ...] = (pymilvus.MilvusException, grpc.RpcError)
        self._shown = address.shown
        self._lite_path = address.uri if address.is_lite else ""
        self._timeout_s = timeout_s
        self._is_strong = consistency == "strong"
        self._writes = 0  # that have ended
        self._clock: _Clock | None = None
        self.name = f"crosslet_{fingerprint[:16]}"
        try:
            self._client = pymilvus.MilvusClient(
                address.uri,
                db_name=address.database,
                token=token,
                timeout=timeout_s,
                dedicated=True,
                grpc_options=GRPC_OPTIONS,
            )
            self._open(pymilvus, fingerprint, dim, is_lite=address.is_lite, read_only=read_only)
        except self._errors as exc:
            raise StartError(
                f"Milvus at {address.shown} cannot be used ({_reason(exc)}); CROSSLET_INDEX names it"
            ) from exc

    @property
    def is_exact(self) -> bool:
        """Whether a search is exhaustive."""
        return bool(self._lite_path)

    def close(self) -> None:
        """Close the connection; milvus-lite, which runs in this process, closes its file."""
        self._client.close()
        if self._lite_path:
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(self._lite_path)

    def upsert(self, rows: Sequence[MilvusRow]) -> None:
        """Insert or replace rows by id."""
        self._write(self._client.upsert, data=list(rows))

    def delete(self, expression: str) -> None:
        """Remove the rows that match an expression."""
        self._write(self._client.delete, filter=expression)

    def count(self, expression: str = "") -> int:
        """Return the number of rows that match an expression."""
        return int(self.rows(expression, ["count(*)"])[0]["count(*)"])

    def rows(self, expression: str, fields: Sequence[str], *, is_latest: bool = False, **limit: int) -> list[MilvusRow]:
        """Return rows that match an expression, unordered, at most `limit`.

        is_latest: whether to see every write of every service, whatever is set: a change depends on it.
        """
        return [
            dict(row)
            for row in self._called(
                self._client.query,
                filter=expression,
                output_fields=list(fields),
                **self._seen(is_latest=is_latest),
                **limit,
            )
        ]

    def search(self, vectors_BD: Vectors, *, fields: Sequence[str], limit: int, expression: str) -> list[ScoredRows]:
        """Return the rows with the largest inner products, one list for each vector; ties are in any order."""
        hits_B = self._called(
            self._client.search,
            data=vectors_BD,
            anns_field="vector",
            filter=expression,
            limit=limit,
            output_fields=list(fields),
            search_params={"metric_type": "IP"},  # no index parameters: an operator may change the index
            **self._seen(),
        )
        return [[(hit["distance"], dict(hit["entity"]) | {"id": hit["id"]}) for hit in hits] for hits in hits_B]

    def _write(self, method: Callable[..., object], **arguments: object) -> None:
        try:
            self._called(method, **arguments)
        finally:
            self._writes += 1

    def _seen(self, *, is_latest: bool = False) -> dict[str, object]:
        """Return the arguments that say which writes a read sees: this service's, and others' but of the last second.

        Milvus' own bounded reads are up to 5 s old, and those of a session say nothing of other services.
        """
        clock = None if self._is_strong or is_latest else self._current_clock()
        if clock is None:
            return {"consistency_level": STRONG}
        return {"consistency_level": "Customized", "guarantee_timestamp": clock.oldest(STALENESS_MS)}

    def _current_clock(self) -> "_Clock | None":
        """Return what time it is in Milvus; None: it does not say."""
        known, writes, now = self._clock, self._writes, time.monotonic()
        if known is not None and known.writes == writes and now - known.read_at < CLOCK_S:
            return known
        try:
            stub = self._client._get_connection()._stub
            timestamp: int = stub.AllocTimestamp(self._no_options, timeout=self._timeout_s).timestamp
        except self._errors:  # milvus-lite has no clock
            return None
        has_written = known is None or known.writes != writes
        self._clock = _Clock(timestamp, now, writes, timestamp if has_written else known.last_write)
        return self._clock

    def _called(self, method: Callable[..., T], **arguments: object) -> T:
        """Call a method of the client about the collection. While Milvus starts, try again until the time is up."""
        until = time.monotonic() + self._timeout_s
        while True:
            left_s = max(until - time.monotonic(), STARTING_RETRY_S)
            try:
                return method(self.name, timeout=left_s, **arguments)
            except self._errors as exc:
                code = getattr(exc, "code", None)  # of Milvus a number; gRPC's own errors have a method
                if code not in STARTING or time.monotonic() + STARTING_RETRY_S > until:
                    raise self._error(code, exc) from exc
                if code == NOT_LOADED:
                    self._load(until)
            time.sleep(STARTING_RETRY_S)

    def _load(self, until: float) -> None:
        """Have Milvus load the collection, which it does by itself if it was loaded before a restart."""
        try:
            self._client.load_collection(self.name, timeout=max(until - time.monotonic(), STARTING_RETRY_S))
        except self._errors as exc:
            logger.warning("Milvus did not load the collection", extra={"reason": _reason(exc)})

    def _error(self, code: object, exc: Exception) -> ServiceError:
        # Milvus' messages name fields and collections. Expressions quote ids, which are not logged.
        reason = QUOTED.sub('".."', _reason(exc))
        logger.warning("Milvus refused or did not answer", extra={"address": self._shown, "reason": reason})
        if code == RATE_LIMIT:
            return Overloaded(f"Milvus at {self._shown} takes no more requests now; try again", retry_after_s=1)
        if code == FORCE_DENY:
            return StorageFull(f"Milvus at {self._shown} is out of memory or disk space (CROSSLET_INDEX)")
        if code in STARTING:
            return IndexUnavailable(
                f"Milvus at {self._shown} is starting or unreachable after {self._timeout_s:g} s ({reason}); try again "
                "later (CROSSLET_INDEX, CROSSLET_INDEX_TIMEOUT_S)"
            )
        return IndexUnavailable(
            f"Milvus at {self._shown} refused, or did not answer within {self._timeout_s:g} s; "
            "documents are unavailable now (CROSSLET_INDEX, CROSSLET_INDEX_TIMEOUT_S)"
        )

    def _open(self, pymilvus: Any, fingerprint: str, dim: int, *, is_lite: bool, read_only: bool) -> None:
        client, timeout_s = self._client, self._timeout_s
        description = f"crosslet documents, schema {SCHEMA_VERSION}, model {fingerprint}"
        if not client.has_collection(self.name, timeout=timeout_s):
            if read_only:
                raise StartError(f"Milvus at {self._shown} has no collection {self.name} of the model (CROSSLET_MODEL)")
            self._create(pymilvus, dim, description)
        there = client.describe_collection(self.name, timeout=timeout_s)
        dims = [field["params"].get("dim") for field in there["fields"] if field["name"] == "vector"]
        if dims != [dim] or there["description"] not in {"", description}:  # milvus-lite keeps no description
            raise StoreError(
                f"collection {self.name} of Milvus at {self._shown} belongs to another model or version: it is "
                f"described as {there['description']!r}, the service expects {description!r} (CROSSLET_MODEL); "
                "of another version, drop it and load the documents again"
            )
        if read_only:
            return
        if not client.list_indexes(self.name, timeout=timeout_s):
            # A server chooses the index itself; an operator may replace it.
            self._index("vector", index_type="FLAT" if is_lite else "AUTOINDEX", metric_type="IP")
            if not is_lite:
                self._index_scalars()
        client.load_collection(self.name, timeout=max(LOAD_TIMEOUT_S, timeout_s))

    def _index(self, field: str, **options: str) -> None:
        indexes = self._client.prepare_index_params()
        indexes.add_index(field, **options)
        self._client.create_index(self.name, indexes, timeout=self._timeout_s)

    def _index_scalars(self) -> None:
        """Index the fields of filters and pages. Without indexes Milvus gives the same answers by scanning all rows."""
        for field in ("tokens", "arrival"):
            try:
                self._index(field, index_type="INVERTED")
            except self._errors as exc:  # Milvus 2.3 cannot index arrays
                logger.warning("scalar index refused", extra={"field": field, "reason": _reason(exc)})

    def _create(self, pymilvus: Any, dim: int, description: str) -> None:
        kinds = pymilvus.DataType
        schema = pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
        schema.add_field("id", kinds.VARCHAR, is_primary=True, max_length=MAX_ID_BYTES)
        schema.add_field("text", kinds.VARCHAR, max_length=MAX_TEXT_BYTES)
        tokens = {"element_type": kinds.VARCHAR, "max_capacity": MAX_TOKENS, "max_length": TOKEN_CHARS}
        schema.add_field("tokens", kinds.ARRAY, **tokens)
        for name in ("metadata", "bounds"):
            schema.add_field(name, kinds.JSON)
        for name in ("arrival", "revision"):
            schema.add_field(name, kinds.INT64)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=dim)
        try:
            self._client.create_collection(self.name, schema=schema, consistency_level=STRONG, timeout=self._timeout_s)
        except self._errors:
            if not self._client.has_collection(self.name, timeout=self._timeout_s):
                raise  # otherwise another replica was faster


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

    # It logs each error with its expression, which may hold ids; our errors carry what an operator needs.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return pymilvus


def _reason(exc: Exception) -> str:
    """Return the first line of Milvus' or gRPC's message."""
    details = getattr(exc, "details", None)
    text = getattr(exc, "message", "") or (str(details()) if callable(details) else str(exc))
    return text.strip().split("\n")[0] or type(exc).__name__
