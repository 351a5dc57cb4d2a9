"""What collections in Milvus take of documents with their own fields: a row each in a collection of Milvus of its own.

milvus-lite keeps no description or property of a collection.
"""

import time
from typing import Any

import numpy as np
import orjson

from service.documents.milvus.connection import STALENESS_MS, STRONG, MilvusConnection
from service.documents.milvus.rows import MAX_ROWS
from service.documents.own_fields import OwnFields
from service.errors import IndexUnavailable, InvalidInput

MAX_NAME = 255  # Milvus' longest name of a collection
MAX_BYTES = 65_535
NO_VECTOR = np.zeros(2, np.float32)  # Milvus takes no collection without vectors


class Configurations:
    """The configurations of one model's collections, by their names in Milvus; others' changes count after a second."""

    def __init__(self, connection: MilvusConnection, name: str) -> None:
        """name: of the collection that has them; it is made when there is something to keep."""
        self._connection = connection
        self._name = name
        self._read_at = -STALENESS_MS / 1000
        self._known: dict[str, OwnFields] = {}

    def of(self, collection: str) -> OwnFields | None:
        """Return what a collection takes; None: documents have id, text and metadata."""
        now = time.monotonic()
        if now >= self._read_at + STALENESS_MS / 1000:
            rows: list[dict[str, Any]] = []
            if self._connection.exists(self._name):
                call, client = self._connection.call, self._connection.client
                rows = call(
                    client.query,
                    self._name,
                    filter='collection != ""',
                    output_fields=["collection", "text"],
                    limit=MAX_ROWS,
                    consistency_level=STRONG,
                )
            self._known = {row["collection"]: OwnFields.parsed(**orjson.loads(row["text"])) for row in rows}
            self._read_at = now
        return self._known.get(collection)

    def set(self, collection: str, own_fields: OwnFields | None) -> None:
        """Set what a collection takes, durably. Raises: InvalidInput: it is too long."""
        call, client = self._connection.call, self._connection.client
        if own_fields is None:
            if self._connection.exists(self._name):
                call(client.delete, self._name, ids=[collection])
        else:
            text = orjson.dumps({"text": own_fields.text, "fields": own_fields.fields}).decode()
            if len(text.encode()) > MAX_BYTES:
                raise InvalidInput(
                    f"text and fields take {len(text.encode())} bytes as JSON; the limit is {MAX_BYTES} where Milvus "
                    "keeps the documents (CROSSLET_INDEX)"
                )
            if not self._connection.exists(self._name):
                self._make()
            row = {"collection": collection, "text": text, "vector": NO_VECTOR}
            call(client.upsert, self._name, data=[row])
        self._read_at = -STALENESS_MS / 1000

    def _make(self) -> None:
        call, client, kinds = self._connection.call, self._connection.client, self._connection.pymilvus.DataType
        schema = self._connection.pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("collection", kinds.VARCHAR, is_primary=True, max_length=MAX_NAME)
        schema.add_field("text", kinds.VARCHAR, max_length=MAX_BYTES)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=len(NO_VECTOR))
        indexes = client.prepare_index_params()
        indexes.add_index("vector", index_type="FLAT", metric_type="IP")
        try:
            call(
                client.create_collection, self._name, schema=schema, index_params=indexes, consistency_level=STRONG
            )  # and loads it
        except IndexUnavailable:
            if not self._connection.exists(self._name):
                raise  # otherwise another service was faster
