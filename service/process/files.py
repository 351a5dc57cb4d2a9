"""Files on the disk."""

import hashlib
import os
import secrets
import sys
import tempfile
from pathlib import Path

PRIVATE = 0o600  # of what holds documents: keys guard them over HTTP, the mode on the disk
SHARED = 0o666  # less what the umask takes
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"


def require_temporary_folder() -> None:
    """End the process with one sentence where no temporary folder can be written: libraries then fail on import."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as exc:
        sys.stderr.write(f"error: no temporary folder can be written ({exc.strerror}); TMPDIR names another\n")
        raise SystemExit(2) from None


def is_lfs_pointer(path: Path) -> bool:
    """Whether Git LFS has left a pointer where a file was not downloaded.

    Raises: OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(LFS_POINTER)) == LFS_POINTER


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file in hex, reading it in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolved(path: Path) -> Path:
    """Follow links. `Path.resolve` raises RuntimeError on a loop of them; here opening the path raises OSError."""
    return Path(os.path.realpath(path))


def flush(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder.

    Raises: OSError: it does not exist, or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create(path: Path, *, mode: int = PRIVATE) -> Path:
    """Create an empty file where nothing has the name, not even a link.

    Raises: OSError.
    """
    os.close(os.open(path, NEW, mode))
    return path


def create_anew(path: Path) -> Path:
    """The same in place of a file or a link that has the name.

    Raises: OSError.
    """
    path.unlink(missing_ok=True)
    return create(path)


def create_beside(target: Path, *, mode: int = PRIVATE) -> Path:
    """Create an empty file in a target's folder, under a name that nobody can foresee.

    Raises: OSError.
    """
    return create(target.with_name(f"crosslet-{secrets.token_hex(8)}.part"), mode=mode)
