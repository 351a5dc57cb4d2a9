"""What collections in Milvus take of documents with their own fields, and how their confidence is recalibrated.

Each has a row in one collection of Milvus:

milvus-lite keeps no description or property of a collection.
"""

import math
import threading
import time
from typing import Any

import numpy as np
import orjson

from service.documents.milvus.connection import BOUNDED, STALENESS_MS, STRONG, MilvusConnection
from service.documents.milvus.rows import MAX_ROWS
from service.documents.own_fields import OwnFields
from service.documents.recalibration import Recalibration
from service.documents.store.schema import own_fields_of, recalibration_of
from service.errors import InvalidInput

MAX_NAME = 255  # Milvus' longest name of a collection
MAX_BYTES = 65_535
PATIENCE_S = 30.0  # how old what a search reads may be
NO_VECTOR = np.zeros(2, np.float32)  # Milvus takes no collection without vectors


class Configurations:
    """The configurations of one model's collections, by their names in Milvus; others' changes count after a second."""

    def __init__(self, connection: MilvusConnection, name: str) -> None:
        """name: of the collection that has them; it is made when there is something to keep."""
        self._connection = connection
        self._name = name
        self._lock = threading.Lock()  # of what follows, also while Milvus is asked
        self._read_at = dict.fromkeys((STRONG, BOUNDED), -math.inf)
        self._is_changed = False  # by this service, since it last read
        self._known: dict[str, tuple[OwnFields | None, Recalibration | None]] = {}

    def own_fields(self, collection: str) -> OwnFields | None:
        """Return what a collection takes; None: documents have id, text and metadata."""
        self._read(older_s=STALENESS_MS / 1000, consistency=STRONG)
        return self._known.get(collection, (None, None))[0]

    def recalibration(self, collection: str) -> Recalibration | None:
        """Return how a collection's confidence is recalibrated; another service's change counts after `PATIENCE_S`."""
        self._read(older_s=PATIENCE_S, consistency=BOUNDED)
        return self._known.get(collection, (None, None))[1]

    def _read(self, *, older_s: float, consistency: str) -> None:
        """Read all again if what is known is older."""
        with self._lock:
            now = time.monotonic()
            if now < self._read_at[consistency] + older_s:
                return
            rows: list[dict[str, Any]] = []
            if self._connection.exists(self._name):
                call, client = self._connection.call, self._connection.client
                rows = call(
                    client.query,
                    self._name,
                    filter='collection != ""',
                    output_fields=["collection", "text"],
                    limit=MAX_ROWS,
                    consistency_level=STRONG if self._is_changed else consistency,
                )
            known = {row["collection"]: (own_fields_of(row["text"]), recalibration_of(row["text"])) for row in rows}
            self._known, self._is_changed = known, False
            self._read_at |= dict.fromkeys((consistency, BOUNDED), now)

    def set(self, collection: str, own_fields: OwnFields | None, recalibration: Recalibration | None) -> None:
        """Set both, durably. Raises: InvalidInput: they are too long."""
        call, client = self._connection.call, self._connection.client
        with self._lock:
            self._is_changed, self._read_at = True, dict.fromkeys((STRONG, BOUNDED), -math.inf)
            if own_fields is None and recalibration is None:
                if self._connection.exists(self._name):
                    call(client.delete, self._name, ids=[collection])
                return
            facts = {} if own_fields is None else {"text": own_fields.text, "fields": own_fields.fields}
            text = orjson.dumps(facts | {"confidence": recalibration}).decode()
            if len(text.encode()) > MAX_BYTES:
                raise InvalidInput(
                    f"text and fields take {len(text.encode())} bytes as JSON; the limit is {MAX_BYTES} where Milvus "
                    "keeps the documents (CROSSLET_INDEX)"
                )
            if not self._connection.exists(self._name):
                self._make()
            row = {"collection": collection, "text": text, "vector": NO_VECTOR}
            call(client.upsert, self._name, data=[row])

    def _make(self) -> None:
        kinds = self._connection.pymilvus.DataType
        schema = self._connection.pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("collection", kinds.VARCHAR, is_primary=True, max_length=MAX_NAME)
        schema.add_field("text", kinds.VARCHAR, max_length=MAX_BYTES)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=len(NO_VECTOR))
        indexes = self._connection.client.prepare_index_params()
        indexes.add_index("vector", index_type="FLAT", metric_type="IP")
        self._connection.create(self._name, schema, index_params=indexes)
