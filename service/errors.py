# ruff: noqa: N818 - an error is named after what happened, as in the tree below
"""The errors of the service, and the one table that maps them to HTTP. Knows nothing about routes.

CrossletError
├── StartError              the service refuses to start: one sentence, exit code 2
│   ├── ArtifactError       the model folder breaks its own manifest or parity pack
│   │   └── ParityFailed    this CPU gives other vectors than the parity pack: another artifact may do
│   └── StoreError          the document store is unreadable or belongs to another model
└── ServiceError            answered over HTTP, see HTTP_OF
    ├── MalformedBody       400  the body is not JSON
    ├── BodyTimeout         408  the client sends its body too slowly
    ├── InvalidInput        422  a field is invalid
    │   └── TextTooLong     422  `truncate: false` and a text longer than the model reads
    ├── Unauthorized        401  no key, or a wrong one
    │   └── Forbidden       403  a read-only key on a write
    ├── NotFound            404  unknown document id or route
    ├── MethodNotAllowed    405  the route does not have this method
    ├── TooLarge            413  the body is over the limit
    ├── UnknownEncoding     415  the body is compressed in another way than gzip
    ├── Overloaded          429  the queue is full; carries Retry-After
    ├── NotReady            503  starting or shutting down
    ├── IndexUnavailable    503  the process that keeps the documents does not answer
    ├── StorageFull         507  the disk or the configured budget is full
    ├── Damaged             500  the disk gives a document otherwise than it was stored
    ├── InferenceFailed     500  the model raised on this input
    └── ClientGone          499  the client left before its answer was ready; only the log sees it
"""

from dataclasses import dataclass


class CrossletError(Exception):
    """Root of every error raised on purpose in this package."""


class StartError(CrossletError):
    """The service cannot start; the message is the one sentence the operator sees."""


class ArtifactError(StartError):
    """The model folder is not what its manifest or parity pack says."""


class ParityFailed(ArtifactError):
    """The files are right, but this machine makes other vectors of them than the exporter's did."""


class StoreError(StartError):
    """The document store cannot be used with this model or this version."""


class ServiceError(CrossletError):
    """An answer other than success; the message is the sentence the client sees."""


class MalformedBody(ServiceError):
    """The request body is not JSON."""


class BodyTimeout(ServiceError):
    """The request body did not arrive in time."""


class InvalidInput(ServiceError):
    """A field of the request is invalid."""


class TextTooLong(InvalidInput):
    """A text is longer than the model reads and the client forbade the cut."""


class Unauthorized(ServiceError):
    """The request carries no key, or an unknown one."""


class Forbidden(Unauthorized):
    """The key is known but may not do this."""


class NotFound(ServiceError):
    """No such document, or no such route."""


class MethodNotAllowed(ServiceError):
    """No route of the path has this method."""

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow  # the methods that there are, as the header lists them


class TooLarge(ServiceError):
    """The request body is larger than the limit."""


class UnknownEncoding(ServiceError):
    """The request body is compressed in a way the service does not read."""


class Overloaded(ServiceError):
    """The queue has no room for the request's texts now."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotReady(ServiceError):
    """The service is starting or shutting down."""


class IndexUnavailable(ServiceError):
    """What keeps the documents is another process, and gives no answer; texts are still embedded."""


class StorageFull(ServiceError):
    """The document store has no room; nothing accepted is lost."""


class Damaged(ServiceError):
    """The disk gives a document, or the file of all, otherwise than it was stored."""


class InferenceFailed(ServiceError):
    """The model raised on this input; other requests are not affected."""


class ClientGone(ServiceError):
    """The client closed the connection; its waiting work was dropped."""


@dataclass(frozen=True)
class HttpMapping:
    """How one error class is answered: the status and the body's `error_type`."""

    status: int
    error_type: str


HTTP_OF: dict[type[ServiceError], HttpMapping] = {
    MalformedBody: HttpMapping(400, "Validation"),
    BodyTimeout: HttpMapping(408, "Validation"),
    InvalidInput: HttpMapping(422, "Validation"),
    TextTooLong: HttpMapping(422, "Tokenizer"),
    Unauthorized: HttpMapping(401, "Unauthorized"),
    Forbidden: HttpMapping(403, "Unauthorized"),
    NotFound: HttpMapping(404, "NotFound"),
    MethodNotAllowed: HttpMapping(405, "Validation"),
    TooLarge: HttpMapping(413, "TooLarge"),
    UnknownEncoding: HttpMapping(415, "Validation"),
    Overloaded: HttpMapping(429, "Overloaded"),
    NotReady: HttpMapping(503, "NotReady"),
    IndexUnavailable: HttpMapping(503, "Backend"),
    StorageFull: HttpMapping(507, "Backend"),
    Damaged: HttpMapping(500, "Backend"),
    InferenceFailed: HttpMapping(500, "Backend"),
    ClientGone: HttpMapping(499, "Backend"),
}
