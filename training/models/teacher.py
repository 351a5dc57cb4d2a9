"""The frozen teacher: loads it, identifies it, and stores its embeddings."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path

import torch
from huggingface_hub import HfApi
from huggingface_hub.constants import HF_HUB_CACHE
from huggingface_hub.file_download import repo_folder_name
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from tqdm import tqdm

from training.models import universal_sentence_encoder
from training.system.device import autocast
from training.models.embedding_store import WINDOW, EmbeddingStore, windows
from training.errors import ConfigError, LoadError
from training.system.files import files_under, fingerprint_files
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder
from training.models.universal_sentence_encoder import UniversalSentenceEncoder

EMBED_CHUNK = 8_192  # texts between two writes: the most that a kill loses
HUB_TIMEOUT_S = 10


def load_teacher(name: str, *, device: torch.device, trust_remote_code: bool = False) -> SentenceTransformer:
    """Load a sentence-transformers model from a folder, an installed package or the hub.

    Raises: ConfigError: none of them has it, it is damaged or incomplete, it is another kind of model, or it needs its
        own code without `trust_remote_code`.
    """
    if name == universal_sentence_encoder.NAME:
        return universal_sentence_encoder.load()
    path = str(packaged_folder(name) or name)
    try:
        model = load_sentence_transformer(path, trust_remote_code=trust_remote_code, device=str(device))
    except LoadError as exc:
        what = "cannot be loaded" if Path(path).is_dir() else "is neither a folder nor a model that the hub gave"
        raise ConfigError(f"model {name!r} {what}: {exc}") from exc
    dims = model.truncate_dim
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        raise ConfigError(f"model {name!r} has truncate_dim {dims!r}; it is a whole number of at least 1")
    return model


def teacher_identity(name: str) -> str:
    """The key of a teacher's embeddings, independent of its folder's path.

    `#hash` of the files (folder), `name#hash` (package) or `name@commit` (hub).
    """
    if Path(name).is_dir():
        return f"#{_contents(Path(name))}"
    if name == universal_sentence_encoder.NAME:
        return universal_sentence_encoder.identity()
    folder = packaged_folder(name)
    return f"{name}#{_contents(folder)}" if folder else f"{name}@{_hub_commit(name)}"


def _contents(folder: Path) -> str:
    """A hash of the files, cached until one changes."""
    files = files_under(folder)
    written = tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    return _hash_files(folder, written)


@lru_cache
def _hash_files(folder: Path, written: tuple[tuple[Path, int, int], ...]) -> str:
    return fingerprint_files([path for path, _, _ in written], relative_to=folder)


@lru_cache
def _hub_commit(name: str) -> str:
    """The commit that loading would use: the hub's newest, or offline the last one downloaded."""
    try:
        return str(HfApi().model_info(name, timeout=HUB_TIMEOUT_S).sha)
    except (OSError, ValueError):
        known = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type="model") / "refs" / "main"
        return known.read_text(encoding="utf-8").strip() if known.is_file() else "unknown"


def is_normalized(model: SentenceTransformer) -> bool:
    """Whether the model itself normalises its embeddings to unit length."""
    return any(isinstance(module, (Normalize, UniversalSentenceEncoder)) for module in model)


def embed_missing(
    teacher: SentenceTransformer, texts: Iterable[str], store: EmbeddingStore, *, total: int | None = None
) -> None:
    """Embed the `texts` that the store lacks, in windows. `total`: number of texts, for the progress bar.

    Embeddings are those of `encode`: with the teacher's default prompt and `truncate_dim`. Truncated ones are normalised
    again if the teacher normalises.
    """
    encode = partial(
        teacher.encode,
        batch_size=128,
        normalize_embeddings=teacher.truncate_dim is not None and is_normalized(teacher),
        convert_to_tensor=True,
        show_progress_bar=False,
    )
    with tqdm(total=total, desc="teacher", unit="text") as bar:
        for window in windows(texts, WINDOW):
            missing = sorted(store.missing(window), key=len)  # by length: little padding
            bar.update(len(window) - len(missing))
            for start in range(0, len(missing), EMBED_CHUNK):
                chunk = missing[start : start + EMBED_CHUNK]
                with autocast(teacher.device):
                    vectors_ND = encode(chunk)
                store.append(chunk, vectors_ND.float().cpu().numpy())
                bar.update(len(chunk))
