"""Refuses a document store that this service cannot use, by the facts it holds about itself."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from service.documents.store.revision_file import REVISION_SUFFIX
from service.documents.store.schema import SCHEMA_VERSION, is_readable
from service.documents.store.schema_check import LARGEST_NUMBER, numbers_fault, schema_fault
from service.errors import StoreError


def usable_version(
    path: Path, found: Mapping[str, str], *, fingerprint: str, dim: int, answered: int, migrated: bool
) -> int:
    """Return the schema version of a usable store. found: its facts.  answered: the last acknowledged revision.

    Raises: StoreError: it has another schema, model or space, is damaged, or is an older copy.
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
            f"document store {path} has revision {revision}, but revision {answered} was acknowledged: it "
            f"is damaged, or an older copy; to use it anyway, remove {path.with_suffix(REVISION_SUFFIX)}"
        )
    stored = found.get("fingerprint", "unknown")
    if stored != fingerprint:
        raise StoreError(
            f"document store {path} holds vectors of model {stored[:12]}, but the service has "
            f"loaded model {fingerprint[:12]}: use that model and space (CROSSLET_MODEL, CROSSLET_SPACE) or another "
            "folder (CROSSLET_DATA), or re-embed the store for the loaded model with `crosslet index re-embed` "
            "(`docker compose run --rm re-embed`)"
        )
    if found.get("dim") != str(dim):
        raise StoreError(f"document store {path} is damaged: its vectors have {found.get('dim')!r} dims, not {dim}")
    return int(version)


def check_schema(path: Path, connection: sqlite3.Connection) -> None:
    """Raises: StoreError: the store at `path` has other tables than crosslet makes."""
    if (fault := schema_fault(connection)) is not None:
        raise StoreError(
            f"document store {path} was changed by another program: {fault}; use a backup from before (`crosslet index "
            "restore`), or undo the change"
        )


def check_numbers(path: Path, connection: sqlite3.Connection, *, largest: int = LARGEST_NUMBER) -> None:
    """Raises: StoreError: the store at `path` has a number that crosslet never writes."""
    if (fault := numbers_fault(connection, largest=largest)) is not None:
        raise StoreError(f"document store {path} is damaged, or was changed by another program: {fault}")


def unusable(path: Path, exc: Exception) -> StoreError:
    """The error of a file that cannot be opened as a store."""
    return StoreError(f"document store {path} cannot be used ({exc}); CROSSLET_DATA names its folder")
