"""Named collections, each one of Milvus. Any service may make and drop them: their list is asked for, not kept."""

import math
import re
from collections.abc import Sequence
from contextlib import nullcontext

from service.documents.collections import NO_VERSIONS, Collections, Versions
from service.documents.document import Document, Vectors
from service.documents.interface import DocumentIndex
from service.documents.milvus.configurations import Configurations
from service.documents.milvus.connection import MilvusConnection
from service.documents.milvus.index import MilvusIndex
from service.documents.milvus.table import MilvusTable
from service.documents.names import DEFAULT_NAME, NAME, check_count, check_name
from service.documents.own_fields import OwnFields
from service.errors import IndexUnavailable, NotFound, ServiceError, StartError

MODEL = re.compile(r"crosslet_([0-9a-f]{16})")  # its default collection
ESCAPED = re.compile(r"_([0-9a-f]{2})")


class MilvusCollections(Collections):
    """The collections of one model. Those over `max_collections` stay."""

    def __init__(self, connection: MilvusConnection, *, fingerprint: str, dim: int, max_collections: int) -> None:
        self._connection = connection
        self._fingerprint = fingerprint
        self._dim = dim
        self._max_collections = max_collections
        self._configurations = Configurations(connection, f"crossletsettings_{fingerprint[:16]}")
        self._indexes: dict[str, MilvusIndex] = {}  # those that were asked for; threads share it

    def opened(self, name: str, *, create: bool) -> MilvusIndex:
        """Open a collection at the start of a service or command.

        Raises: StartError: Milvus cannot be used, or has no such collection.  StoreError: it is of another model.
                StorageFull: there are too many.
        """
        index = self.of(name)
        try:
            if create and name != DEFAULT_NAME and self._find(name) is None:
                self._check_new(name)
            index.table.open(create=create)
        except NotFound as exc:
            where = f"Milvus at {self._connection.shown} has no collection {self._name(name)}"
            raise StartError(f"{where} of the model (CROSSLET_MODEL)") from exc
        except IndexUnavailable as exc:
            raise StartError(f"Milvus at {self._connection.shown} cannot be used: {exc}") from exc
        return index

    def of_other_model(self, model: str | None) -> "MilvusCollections":
        """Return the collections of another model, over the same connection.

        model: the first 16 digits of its fingerprint; None: there is one other alone.

        Raises: StartError: Milvus has none, or several.
        """
        own = self._fingerprint[:16]
        models = sorted({match[1] for name in self._connection.names() if (match := MODEL.fullmatch(name))} - {own})
        chosen = [name for name in models if model is None or name == model]
        if len(chosen) != 1:
            way_out = "name one by --from" if len(chosen) > 1 else "there is nothing to re-embed"
            raise StartError(
                f"Milvus at {self._connection.shown} has documents of {len(models)} other models"
                f"{' (' * bool(models)}{', '.join(models)}{')' * bool(models)}: {way_out}"
            )
        call, client = self._connection.call, self._connection.client
        there = call(client.describe_collection, f"crosslet_{chosen[0]}")
        (dim,) = (int(field["params"]["dim"]) for field in there["fields"] if field["name"] == "vector")
        # milvus-lite keeps no description, and 16 digits are enough there.
        fingerprint = there["description"].rpartition(" ")[2] or chosen[0]
        most = self._max_collections
        return MilvusCollections(self._connection, fingerprint=fingerprint, dim=dim, max_collections=most)

    def close(self) -> None:
        """Close the connection, which all have."""
        for index in self._indexes.values():
            index.keywords.close()
        self._connection.close()

    def named(self) -> dict[str, DocumentIndex]:
        """Return every collection, the default one first, then by name."""
        prefix = self._name("")
        named = {
            ESCAPED.sub(lambda code: chr(int(code[1], 16)), name.removeprefix(prefix)): name
            for name in self._connection.names()
            if name.startswith(prefix)
        }
        # Others are not the service's: tools add `_` and a word, which no name here becomes.
        ours = [name for name, there in named.items() if NAME.fullmatch(name) and self._name(name) == there]
        return {name: self.of(name) for name in (DEFAULT_NAME, *sorted(ours))}

    def of(self, name: str) -> MilvusIndex:
        """Return one collection, there or not: Milvus is not asked, since this may run on the event loop.

        Its methods raise NotFound if it is not there. Raises: InvalidInput: the name is malformed.
        """
        check_name(name)
        if len(self._indexes) > self._max_collections:  # a client may ask for any number of names
            for other, index in list(self._indexes.items()):
                if not index.table.is_open:
                    self._indexes.pop(other, None)
        return self._indexes.setdefault(name, MilvusIndex(self._table(name), self._configurations))

    def own_fields(self, name: str) -> OwnFields | None:
        """As `DocumentIndex.own_fields`; Milvus is not asked whether the collection is there."""
        return self.of(name).own_fields

    def put(
        self, name: str, documents: Sequence[Document], vectors_PD: Vectors, versions: Versions = NO_VERSIONS
    ) -> int:
        """Put documents into a collection, which is made if there is none, and stays: others may have put some, too."""
        if self._find(name) is None:
            self._make(name)
        with nullcontext() if versions.replaced is None else self.of(name).changing(versions.replaced.id):
            self._check_unchanged(name, versions)
            return self.of(name).put(documents, vectors_PD)

    def count(self) -> float:
        """Return the documents of all collections; NaN while Milvus is away."""
        try:
            return super().count()
        except ServiceError:
            return math.nan

    @property
    def size_bytes(self) -> int:
        """Memory of all indexes in this process."""
        return 0

    def _find(self, name: str) -> MilvusIndex | None:
        index = self.of(name)
        return index if name == DEFAULT_NAME or self._connection.exists(self._name(name)) else None

    def _check_new(self, name: str) -> None:
        check_name(name)
        check_count(name, len(self.named()), most=self._max_collections)

    def _make(self, name: str, own_fields: OwnFields | None = None) -> None:
        self._check_new(name)
        self._configurations.set(self._name(name), own_fields, None)  # a drop that failed half way may have left others
        self.of(name).table.open(create=True)

    def _drop(self, name: str) -> None:
        self._connection.drop(self._name(name))
        if (index := self._indexes.pop(name, None)) is not None:
            index.keywords.close()
        self._configurations.set(self._name(name), None, None)  # last: until then the documents need them

    def _table(self, name: str) -> MilvusTable:
        return MilvusTable(self._connection, self._name(name), fingerprint=self._fingerprint, dim=self._dim)

    def _name(self, name: str) -> str:
        """Return the name in Milvus, which takes letters, digits and _ alone."""
        model = f"crosslet_{self._fingerprint[:16]}"
        if name == DEFAULT_NAME:
            return model
        return f"{model}_" + "".join(char if char.isalnum() else f"_{ord(char):02x}" for char in name)
