"""Refuses a document store that this service cannot use. Knows what the store says of itself; opens no file."""

from collections.abc import Mapping
from pathlib import Path

from service.documents.store.revision_file import REVISION_SUFFIX
from service.documents.store.schema import SCHEMA_VERSION, is_readable
from service.errors import StoreError


def usable_version(path: Path, found: Mapping[str, str], *, fingerprint: str, answered: int, migrated: bool) -> int:
    """The schema version of a store. found: its facts.  answered: the last revision that was answered for.

    Raises: StoreError: it is of another schema, model or space, damaged, or an older copy.
    """
    version = found.get("schema_version")
    if version is None or not is_readable(version, migrated=migrated):
        raise StoreError(
            f"document store {path} has schema version {version}; this service reads {SCHEMA_VERSION} (CROSSLET_DATA)"
        )
    revision = found.get("revision", "")
    if not revision.isdecimal():
        raise StoreError(f"document store {path} is damaged: its revision is {revision!r}")
    if int(revision) < answered:
        raise StoreError(
            f"document store {path} is of revision {revision}, but revision {answered} was answered for: it "
            f"is damaged, or an older copy; to go on with it all the same, remove {path.with_suffix(REVISION_SUFFIX)}"
        )
    stored = found.get("fingerprint", "unknown")
    if stored != fingerprint:
        raise StoreError(
            f"document store {path} holds vectors of model {stored[:12]}, the service has "
            f"loaded model {fingerprint[:12]}: use that model and space (CROSSLET_MODEL, CROSSLET_SPACE) or another "
            "folder (CROSSLET_DATA), or make the store over for the model loaded with `crosslet index re-embed`"
        )
    return int(version)
