"""Files on the disk."""

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder.

    Raises: OSError: it does not exist, or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
