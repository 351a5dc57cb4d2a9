"""One collection of Milvus, which has the documents of one of ours: creates it, reads and writes its rows.

B queries, D dims
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from service.documents.document import Vectors
from service.documents.milvus.connection import LOAD_TIMEOUT_S, STALENESS_MS, STRONG, Clock, MilvusConnection
from service.documents.milvus.rows import DIGEST_CHARS, MAX_ID_BYTES, MAX_TEXT_BYTES, MAX_TOKENS, MilvusRow
from service.errors import IndexUnavailable, InvalidInput, StoreError

SCHEMA_VERSION = 5
WINDOW = 10  # times the rows wanted of it, the most that a window has
LATEST = 2**63 - 1

ScoredRows = list[tuple[float, MilvusRow]]  # (inner product, row)


class MilvusTable:
    """A collection of Milvus. It is looked for at the first call. Thread-safe."""

    def __init__(self, connection: MilvusConnection, name: str, *, fingerprint: str, dim: int) -> None:
        """name: in Milvus.  fingerprint, dim: of the model."""
        self.connection = connection
        self.name = name
        self._fingerprint = fingerprint
        self.dim = dim
        self.is_open = False
        self.has_terms = False  # sparse vectors of keywords; known once it is open
        self._writes = 0  # that have ended
        self._clock: Clock | None = None

    def open(self, *, create: bool) -> None:
        """Look at the collection, and have Milvus load it.

        Args:   create: whether to make it if there is none.
        Raises: StoreError: it belongs to another model or version.  NotFound: there is none.
                What `MilvusConnection.call` does.
        """
        call, client = self.connection.call, self.connection.client
        description = f"crosslet documents, schema {SCHEMA_VERSION}, model {self._fingerprint}"
        if create and not self.connection.exists(self.name):
            self._create(description)
        there = call(client.describe_collection, self.name)
        dims = [field["params"].get("dim") for field in there["fields"] if field["name"] == "vector"]
        has_rows = any(field["name"] == "head" for field in there["fields"])
        if dims != [self.dim] or not has_rows or there["description"] not in {"", description}:
            raise StoreError(
                f"collection {self.name} of Milvus at {self.connection.shown} belongs to another model or version: it "
                f"is described as {there['description']!r}, the service expects {description!r} (CROSSLET_MODEL); "
                "of another version, drop it and load the documents again"
            )
        self.has_terms = any(field["name"] == "terms" for field in there["fields"])
        if create and not call(client.list_indexes, self.name):
            # A server chooses the index itself; an operator may replace it.
            self._index("vector", index_type="FLAT" if self.connection.is_lite else "AUTOINDEX", metric_type="IP")
            if self.has_terms:
                self._index("terms", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
            if not self.connection.is_lite:
                self._index_scalars()
        if create:
            call(client.load_collection, self.name, timeout=max(LOAD_TIMEOUT_S, self.connection.timeout_s))
        self.is_open = True  # what is not loaded, `MilvusConnection.call` loads

    def ensure_open(self) -> None:
        """Open the collection, unless it is. Raises: as `open`."""
        if not self.is_open:
            self.open(create=False)

    def check_terms(self) -> None:
        """Raises: InvalidInput: the collection has no keywords."""
        self.ensure_open()
        if not self.has_terms:
            lacks = "it was made by an older one" if self.connection.has_keywords else "this one lacks sparse vectors"
            raise InvalidInput(
                f"keywords, hybrid and typing need Milvus 2.5, and {lacks} (CROSSLET_INDEX): leave mode and typing "
                'out, or send mode "dense"'
            )

    def upsert(self, rows: Sequence[MilvusRow]) -> None:
        """Insert or replace rows."""
        self._write(self.connection.client.upsert, data=list(rows))

    def delete(self, expression: str) -> None:
        """Remove the rows that match an expression."""
        self._write(self.connection.client.delete, filter=expression)

    def count(self, expression: str) -> int:
        """Return the number of rows that match an expression."""
        return int(self.rows(expression, ["count(*)"])[0]["count(*)"])

    def rows(self, expression: str, fields: Sequence[str], *, is_latest: bool = False, **limit: int) -> list[MilvusRow]:
        """Return rows that match an expression, unordered, at most `limit`.

        is_latest: whether to see every write of every service, whatever is set: a change depends on it.
        """
        found = self._call(
            self.connection.client.query,
            filter=expression,
            output_fields=list(fields),
            **self._seen(is_latest=is_latest),
            **limit,
        )
        return [dict(row) for row in found]

    def windows(
        self, expression: str, fields: Sequence[str], *, by: str, after: int, wanted: int
    ) -> Iterator[tuple[list[MilvusRow], int]]:
        """Yield the rows with a larger integer in a field, in windows of it, and each one's last integer.

        Args:    by: the field.  wanted: rows that a window has at least, but for the last one.
        Returns: unordered rows with `fields` and the field. The last window's integer is LATEST.

        Milvus does not sort rows: the interval of integers is narrowed until it holds few enough.
        """
        most = WINDOW * wanted
        while True:
            low, high = after, LATEST
            window = f"{expression} and {by} > {after} and {by} <= "
            while len(rows := self.rows(f"{window}{high}", [*fields, by], limit=most)) == most and high - low > 1:
                high = sorted(row[by] for row in rows)[wanted - 1]  # at least `wanted` rows are up to there
                middle = (low + high) // 2
                if self.count(f"{window}{middle}") >= wanted:
                    high = middle
                else:
                    low = middle
            yield rows, high
            if high == LATEST:
                return
            after = high

    def search(
        self,
        vectors_BD: Vectors | Sequence[Mapping[int, float]],
        *,
        fields: Sequence[str],
        limit: int,
        expression: str,
        by: Literal["vector", "terms"] = "vector",
    ) -> list[ScoredRows]:
        """Return the rows with the largest inner products, one list for each vector; ties are in any order."""
        hits_B = self._call(
            self.connection.client.search,
            data=vectors_BD,
            anns_field=by,
            filter=expression,
            limit=limit,
            output_fields=list(fields),
            search_params={"metric_type": "IP"},  # no index parameters: an operator may change the index
            **self._seen(),
        )
        return [[(hit["distance"], dict(hit["entity"])) for hit in hits] for hits in hits_B]

    def _write(self, method: Callable[..., object], **arguments: object) -> None:
        try:
            self._call(method, **arguments)
        finally:
            self._writes += 1

    def _call(self, method: Callable[..., Any], **arguments: Any) -> Any:
        self.ensure_open()
        return self.connection.call(method, self.name, **arguments)

    def _seen(self, *, is_latest: bool = False) -> dict[str, object]:
        """Return the arguments that say which writes a read sees: this service's, and others' but of the last second.

        Milvus' own bounded reads are up to 5 s old, and those of a session say nothing of other services.
        """
        clock = None if is_latest else self.connection.now(self._clock, self._writes)
        if clock is None:
            return {"consistency_level": STRONG}
        self._clock = clock
        return {"consistency_level": "Customized", "guarantee_timestamp": clock.oldest(STALENESS_MS)}

    def _index(self, field: str, **options: str) -> None:
        indexes = self.connection.client.prepare_index_params()
        indexes.add_index(field, **options)
        self.connection.call(self.connection.client.create_index, self.name, index_params=indexes)

    def _index_scalars(self) -> None:
        """Index the fields of filters and pages. Without indexes Milvus gives the same answers by scanning all rows."""
        for field in ("tokens", "head", "arrival"):
            with suppress(IndexUnavailable):  # Milvus 2.3 has no such index; the log has its reason
                self._index(field, index_type="INVERTED")

    def _create(self, description: str) -> None:
        pymilvus = self.connection.pymilvus
        kinds = pymilvus.DataType
        schema = pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
        schema.add_field("row", kinds.VARCHAR, is_primary=True, max_length=DIGEST_CHARS)
        schema.add_field("head", kinds.VARCHAR, max_length=DIGEST_CHARS)
        schema.add_field("id", kinds.VARCHAR, max_length=MAX_ID_BYTES)
        schema.add_field("text", kinds.VARCHAR, max_length=MAX_TEXT_BYTES)
        tokens = {"element_type": kinds.VARCHAR, "max_capacity": MAX_TOKENS, "max_length": DIGEST_CHARS}
        schema.add_field("tokens", kinds.ARRAY, **tokens)
        for name in ("metadata", "bounds", "passages"):
            schema.add_field(name, kinds.JSON)
        for name in ("number", "truncated", "arrival", "revision"):
            schema.add_field(name, kinds.INT64)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=self.dim)
        if self.connection.has_keywords:
            schema.add_field("terms", kinds.SPARSE_FLOAT_VECTOR)
        self.connection.create(self.name, schema)
