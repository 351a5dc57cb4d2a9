"""Sends documents, a line each, and searches to a running service. Knows HTTP and its refusals; reads no files."""

import http.client
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self
from urllib.parse import quote, urlsplit

import orjson

from service.documents.document import Document
from service.documents.names import DEFAULT_NAME
from service.documents.own_fields import OwnFields
from service.documents.recalibration import Recalibration
from service.errors import InvalidInput, StartError
from service.json_parsing import loads

TIMEOUT_S = 600.0  # of one answer: a busy service may take long over a batch
PATIENCE_S = 60.0  # for a service that is full, starts again, or cannot be reached for a while
JSON = "application/json"
AGAIN = frozenset({429, 502, 503, 504})


class NothingStoredError(StartError):
    """The service refused every document of a batch; the message has the first one's reason."""


class ServiceClient:
    """One connection to a service, opened again if it was closed. Repeating a request changes nothing."""

    def __init__(
        self, url: str, *, collection: str = DEFAULT_NAME, key: str | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        """url: as in http://host:8080, with the path prefix of a proxy if there is one.  key: one with the rights.

        Raises: InvalidInput: it is no such address, or holds a password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
            (parts.hostname or "").encode("idna")  # as a connection does
            self._prefix = quote(parts.path.rstrip("/"), safe="/%")
        except ValueError as exc:
            raise InvalidInput(f"{url} is not an address; write it like http://host:8080") from exc
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise InvalidInput(f"{url} is not an address; write it like http://host:8080")
        if parts.username is not None:
            raise InvalidInput("the address holds a user or a password; set CROSSLET_API_KEYS instead")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, port, timeout=TIMEOUT_S)
        self._collection_path = f"/collections/{quote(collection, safe='')}"
        self._documents_path = "" if collection == DEFAULT_NAME else self._collection_path
        self._url = url
        self._patience_s = patience_s
        self._was_reached = False
        # Bytes: http.client writes text in Latin 1, and a key may hold any letters.
        self._key = {} if key is None else {"authorization": f"Bearer {key}".encode("utf-8", "surrogateescape")}
        self._own_fields: OwnFields | None = None  # to set
        self._has_own_fields = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def own_fields(self) -> OwnFields | None:
        """Return what the collection takes of documents with their own fields; None: nothing, or there is none.

        Raises: StartError: the service cannot be reached or asked.
        """
        status, answer = self.ask("GET", self._collection_path)
        if status not in {200, 404}:
            raise self._refusal(status, str(answer.get("error", "it has no collections")))
        text = answer.get("text")
        self._has_own_fields = text is not None
        return None if text is None else OwnFields.parsed(text, answer["fields"])

    def configure(self, own_fields: OwnFields) -> None:
        """Set what the collection takes; while it is empty, before the first `put`: a file without documents changes
        nothing.

        Raises: InvalidInput: the service refuses it.  StartError: it cannot be reached or asked.
        """
        self._has_own_fields = True
        _, answer = self.ask("GET", self._collection_path)
        if answer.get("documents"):
            self._put_settings(own_fields)
        else:
            self._own_fields = own_fields

    def _put_settings(self, own_fields: OwnFields | None, **others: object) -> None:
        own = {} if own_fields is None else {"text": own_fields.text, "fields": own_fields.fields}
        status, answer = self.ask("PUT", self._collection_path, orjson.dumps(own | others), JSON)
        if status != 200:
            said = str(answer.get("error", "it has no collections"))
            raise InvalidInput(said) if status in {409, 422, 507} else self._refusal(status, said)

    def recalibrate(self, recalibration: Recalibration) -> None:
        """Set how the confidence of the collection's searches is changed.

        Raises: InvalidInput: the service refuses it.  StartError: it cannot be reached or asked.
        """
        self._put_settings(self.own_fields(), confidence=asdict(recalibration))

    def put(self, documents: Sequence[Document]) -> dict[str, Any]:
        """Store documents, with own fields if `configure` or `own_fields` said so. Return the service's answer; what
        it refuses is in it, by line.

        Raises: StartError: the service cannot be reached, or refuses them all for a reason that is not theirs.
                InvalidInput: it refuses what `configure` was given.
        """
        if self._own_fields is not None:
            self._put_settings(self._own_fields)
            self._own_fields = None
        lines = (
            {"id": document.id, **document.metadata}
            if self._has_own_fields
            else {"id": document.id, "text": document.text, "metadata": document.metadata}
            for document in documents
        )
        body = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
        status, answer = self.ask("PUT", f"{self._documents_path}/documents", body, "application/x-ndjson")
        if status == 200 and isinstance(answer.get("lines"), int):
            return answer
        said = str(answer.get("error", "it does not take lines of documents"))
        if status == 422 and said.startswith("no line could be stored"):
            raise NothingStoredError(said)
        raise self._refusal(status, said)

    def search(self, body: Mapping[str, object]) -> dict[str, Any]:
        """Return the answer to a search.

        Raises: InvalidInput: the service refuses what is asked.  StartError: it cannot be reached or asked.
        """
        status, answer = self.ask("POST", f"{self._documents_path}/search", orjson.dumps(body), JSON)
        if status == 200 and isinstance(answer.get("results"), list):
            return answer
        said = str(answer.get("error", "it does not search documents"))
        raise InvalidInput(said) if status in {404, 422} else self._refusal(status, said)

    def _refusal(self, status: int, said: str) -> StartError:
        way_out = "; this command takes its key from CROSSLET_API_KEYS" if status in {401, 403} else ""
        return StartError(f"{self._url} answered {status}: {said}{way_out}")

    def ask(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> tuple[int, dict[str, Any]]:
        """Return status and JSON object of an answer; wait for a service that is full or away for a while.

        Raises: StartError: it cannot be reached, or does not answer in JSON.
        """
        until = time.monotonic() + self._patience_s
        while True:
            try:
                self._connection.request(method, self._prefix + path, body, {"content-type": content_type, **self._key})
                response = self._connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as exc:
                self._connection.close()
                if not self._was_reached or time.monotonic() > until:
                    raise StartError(f"{self._url} cannot be reached ({exc})") from exc
                time.sleep(1)
                continue
            self._was_reached, status = True, response.status
            given = response.getheader("retry-after", "1")
            retry_after_s = float(given) if given.isdecimal() else 1.0
            if status not in AGAIN or time.monotonic() + retry_after_s > until:
                break
            time.sleep(retry_after_s)
        try:
            fields = loads(answer)
        except orjson.JSONDecodeError:
            fields = None
        if not isinstance(fields, dict):
            raise StartError(f"{self._url} answered {status} without JSON; is it a crosslet service?")
        return status, fields
