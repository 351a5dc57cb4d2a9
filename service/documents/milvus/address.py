"""Reads `CROSSLET_INDEX`: which Milvus keeps the documents. Knows URLs; connects to nothing."""

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from service.errors import StartError

EMBEDDED = "embedded"
DEFAULT_PORT = 19530
FORMS = f"{EMBEDDED}, milvus://host:{DEFAULT_PORT}/database, milvus+tls://.. or milvus+lite:///folder/file.db"


@dataclass(frozen=True)
class MilvusAddress:
    """Where a Milvus is.  uri: as pymilvus takes it.  database: empty for the default one.  shown: for messages."""

    uri: str
    database: str
    is_lite: bool
    shown: str


def milvus_address(index: str) -> MilvusAddress:
    """The address in a value of `CROSSLET_INDEX`.

    Raises: StartError: it is none, or carries a password, which would end up in logs.
    """
    try:
        url = urlsplit(index)
        port = url.port or DEFAULT_PORT
    except ValueError as exc:
        raise StartError(f"CROSSLET_INDEX is not one of {FORMS}") from exc
    if url.username is not None or url.password is not None:
        raise StartError("CROSSLET_INDEX holds a user or a password; put user:password into CROSSLET_INDEX_TOKEN")
    if url.query or url.fragment:
        raise StartError(f"CROSSLET_INDEX has options, but takes none; it is one of {FORMS}")
    if url.scheme == "milvus+lite":
        return _lite(url)
    database = url.path.strip("/")
    schemes = {"milvus": "http", "milvus+tls": "https"}
    if url.scheme not in schemes or not url.hostname or "/" in database:
        raise StartError(f"CROSSLET_INDEX is not one of {FORMS}")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return MilvusAddress(f"{schemes[url.scheme]}://{host}:{port}", database, is_lite=False, shown=f"{host}:{port}")


def _lite(url: SplitResult) -> MilvusAddress:
    if url.netloc or not url.path.startswith("/") or not url.path.endswith(".db"):  # pymilvus goes by the ending
        raise StartError("CROSSLET_INDEX names no absolute path of a .db file: milvus+lite:///folder/file.db")
    return MilvusAddress(url.path, "", is_lite=True, shown=url.path)
