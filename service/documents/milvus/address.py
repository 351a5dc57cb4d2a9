"""Parses `CROSSLET_INDEX`, the address of Milvus."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from service.errors import StartError

EMBEDDED = "embedded"
DEFAULT_PORT = 19530
FORMS = f"{EMBEDDED}, milvus://host:{DEFAULT_PORT}/database, milvus+tls://.. or milvus+lite:///folder/file.db"


@dataclass(frozen=True)
class MilvusAddress:
    """The address of a Milvus server. uri: for pymilvus.  database: empty = the default.  shown: for messages."""

    uri: str
    database: str
    is_lite: bool
    shown: str


def milvus_address(index: str) -> MilvusAddress:
    """Parse a value of `CROSSLET_INDEX`.

    Raises: StartError: it is not an address, or holds a password, which would end up in logs.
    """
    try:
        url = urlsplit(index)
        port = url.port or DEFAULT_PORT
    except ValueError as exc:
        raise StartError(f"CROSSLET_INDEX is not one of {FORMS}") from exc
    if url.username is not None or url.password is not None:
        raise StartError("CROSSLET_INDEX holds a user or a password; put user:password into CROSSLET_INDEX_TOKEN")
    if url.query or url.fragment:
        raise StartError(f"CROSSLET_INDEX takes no options; it is one of {FORMS}")
    if url.scheme == "milvus+lite":
        if url.netloc or not url.path.startswith("/") or not url.path.endswith(".db"):  # required by pymilvus
            raise StartError("CROSSLET_INDEX must give the absolute path of a .db file: milvus+lite:///folder/file.db")
        return MilvusAddress(url.path, "", is_lite=True, shown=url.path)
    database = url.path.strip("/")
    schemes = {"milvus": "http", "milvus+tls": "https"}
    if url.scheme not in schemes or not url.hostname or "/" in database:
        raise StartError(f"CROSSLET_INDEX is not one of {FORMS}")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return MilvusAddress(f"{schemes[url.scheme]}://{host}:{port}", database, is_lite=False, shown=f"{host}:{port}")
