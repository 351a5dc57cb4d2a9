# ruff: noqa: N818 - an error is named after what happened, as in the tree below
"""The errors of the service, and the table that maps them to HTTP.

CrossletError
├── StartError              the service refuses to start: one sentence, exit code 2
│   ├── ArtifactError       the model folder does not match its manifest or parity pack
│   │   └── ParityFailed    this CPU gives other vectors than the parity pack: another artifact may work
│   └── StoreError          the document store is unreadable or belongs to another model
│       └── StoreInUse      another process has the document store
└── ServiceError            answered over HTTP, see HTTP_OF
    ├── MalformedBody       400  the body is not JSON
    ├── MalformedHead       400  a control character in the path; not exactly one Host
    ├── BodyTimeout         408  the client sends its body too slowly
    ├── InvalidInput        422  a field is invalid
    │   └── TextTooLong     422  `truncate: false` and a text longer than the model reads
    ├── Unauthorized        401  no key, or a wrong one
    │   └── Forbidden       403  a read-only key, or a page of another origin, on a change or a backup
    ├── NotFound            404  unknown document id, collection or route
    ├── MethodNotAllowed    405  the route does not take this method
    ├── Conflict            409  what the request builds on has changed, or stands in its way
    ├── TooLarge            413  the body is over a limit
    ├── UnknownEncoding     415  the body is compressed, but not with gzip
    ├── Misdirected         421  no keys are set, and Host holds an unknown name
    ├── Overloaded          429  the queue is full; carries Retry-After
    ├── NotReady            503  starting, shutting down, or the document store's files are gone
    ├── IndexUnavailable    503  the process that stores the documents (Milvus) does not answer
    ├── StorageFull         507  the disk or the configured budget is full
    ├── Damaged             500  a document is damaged on the disk
    ├── InferenceFailed     500  the model raised on this input
    └── ClientGone          499  the client disconnected before its answer was ready; seen only in the log
"""

from typing import Self


class CrossletError(Exception):
    """The base class of this package's errors."""


class StartError(CrossletError):
    """The service cannot start. The message is one sentence for the operator."""


class ArtifactError(StartError):
    """The model folder does not match its manifest or parity pack."""


class ParityFailed(ArtifactError):
    """The files are intact, but this machine computes other vectors than the exporter's."""


class StoreError(StartError):
    """The document store cannot be used with this model or this version."""


class StoreInUse(StoreError):
    """Another process has the document store open for writing. url: where it answers, if it is a service."""

    def __init__(self, message: str, *, url: str | None = None) -> None:
        super().__init__(message)
        self.url = url


class ServiceError(CrossletError):
    """A request fails. The message is one sentence for the client."""

    def at(self, place: str) -> Self:
        """Return this error with the place that it is about before its message, such as inputs[3]."""
        return self.worded(f"{place} {self}")

    def worded(self, message: str) -> Self:
        """Return this error with another message. It keeps its class, its attributes and its cause."""
        other = type(self).__new__(type(self), message)  # not `type(self)(message)`: some classes take more
        other.__dict__.update(self.__dict__)
        other.__cause__ = self.__cause__
        return other


class MalformedBody(ServiceError):
    """The request body is not JSON."""


class MalformedHead(ServiceError):
    """The path has a control character, or the request has not exactly one Host."""


class BodyTimeout(ServiceError):
    """The request body did not arrive in time."""


class InvalidInput(ServiceError):
    """A field of the request is invalid."""


class TextTooLong(InvalidInput):
    """A text is longer than the model reads, and the client does not allow truncation."""


class Unauthorized(ServiceError):
    """The request carries no key, or an unknown one."""


class Forbidden(Unauthorized):
    """The key, or the page that asks, may not do this."""


class NotFound(ServiceError):
    """No such document, collection or route."""


class MethodNotAllowed(ServiceError):
    """No route of the path has this method."""

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow  # the methods that are allowed, as the header lists them


class Conflict(ServiceError):
    """The collection or document is not as the request needs it."""


class TooLarge(ServiceError):
    """The request is larger than a limit."""


class UnknownEncoding(ServiceError):
    """The request body is compressed with an unsupported encoding."""


class Misdirected(ServiceError):
    """The service has no keys, and is asked under a name that is not its own."""


class Overloaded(ServiceError):
    """A queue or memory limit is reached; the request may succeed later."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotReady(ServiceError):
    """The service is starting or shutting down, or its document store was moved or deleted."""


class IndexUnavailable(ServiceError):
    """The documents are in another process, which does not answer; embedding still works."""


class StorageFull(ServiceError):
    """Disk or memory for documents is full; nothing accepted is lost."""


class Damaged(ServiceError):
    """A document or the store's file is damaged on the disk."""


class InferenceFailed(ServiceError):
    """The model raised on this input; other requests are not affected."""


class ClientGone(ServiceError):
    """The client closed the connection; its waiting texts were dropped."""


HTTP_OF: dict[type[ServiceError], tuple[int, str]] = {  # status, and the body's `error_type`
    MalformedBody: (400, "Validation"),
    MalformedHead: (400, "Validation"),
    BodyTimeout: (408, "Validation"),
    InvalidInput: (422, "Validation"),
    TextTooLong: (422, "Tokenizer"),
    Unauthorized: (401, "Unauthorized"),
    Forbidden: (403, "Unauthorized"),
    NotFound: (404, "NotFound"),
    MethodNotAllowed: (405, "Validation"),
    Conflict: (409, "Validation"),
    TooLarge: (413, "TooLarge"),
    UnknownEncoding: (415, "Validation"),
    Misdirected: (421, "Validation"),
    Overloaded: (429, "Overloaded"),
    NotReady: (503, "NotReady"),
    IndexUnavailable: (503, "Backend"),
    StorageFull: (507, "Backend"),
    Damaged: (500, "Backend"),
    InferenceFailed: (500, "Backend"),
    ClientGone: (499, "Backend"),
}
