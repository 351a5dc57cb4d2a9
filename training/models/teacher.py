"""The frozen teacher: any sentence-transformers model, its identity, and how its store of embeddings is filled."""

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

EMBED_CHUNK = 8_192  # texts embedded between two writes: what a kill can lose
HUB_TIMEOUT_S = 10


def load_teacher(name: str, *, device: torch.device, trust_remote_code: bool = False) -> SentenceTransformer:
    """A sentence-transformers model from a local folder, an installed package that carries it, or the hub.

    Raises: ConfigError: none of the three has it, or what is there is damaged, incomplete or no such model, or needs
        code of its own without `trust_remote_code`.
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
    """What its embeddings are stored under: a hash of the files (folder), with the name (package), or a commit (hub).

    However a folder's path is written, it is the same.
    """
    if Path(name).is_dir():
        return f"#{_contents(Path(name))}"
    if name == universal_sentence_encoder.NAME:
        return universal_sentence_encoder.identity()
    folder = packaged_folder(name)
    return f"{name}#{_contents(folder)}" if folder else f"{name}@{_hub_commit(name)}"


def _contents(folder: Path) -> str:
    """A hash of the files, read again only when one was written."""
    files = files_under(folder)
    written = tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    return _hash_files(folder, written)


@lru_cache
def _hash_files(folder: Path, written: tuple[tuple[Path, int, int], ...]) -> str:
    return fingerprint_files([path for path, _, _ in written], relative_to=folder)


@lru_cache
def _hub_commit(name: str) -> str:
    """The commit that loading the model would use: the hub's newest, or without a network the one downloaded last."""
    try:
        return str(HfApi().model_info(name, timeout=HUB_TIMEOUT_S).sha)
    except (OSError, ValueError):
        known = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type="model") / "refs" / "main"
        return known.read_text(encoding="utf-8").strip() if known.is_file() else "unknown"


def is_normalized(model: SentenceTransformer) -> bool:
    """Whether the model's own last step gives its embeddings unit length."""
    return any(isinstance(module, (Normalize, UniversalSentenceEncoder)) for module in model)


def embed_missing(
    teacher: SentenceTransformer, texts: Iterable[str], store: EmbeddingStore, *, total: int | None = None
) -> None:
    """Give the store what it lacks of `texts`, a window of texts in memory at a time. `total`: how many they are.

    As `encode` gives them: behind the teacher's default prompt, cut to its `truncate_dim`. What is cut has unit length
    again, if the teacher's whole embeddings have it: the student's will.
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
