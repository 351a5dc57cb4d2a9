"""Loads models to score: exported artifacts, and whatever sentence-transformers can load."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerBase

from service.errors import ArtifactError
from service.model.artifact import MANIFEST_FILE
from service.model.encoder import load_encoder as load_artifact_encoder
from service.model.prompts import Prompts
from service.model.tokenizer import stripped
from service.process.cpus import usable_cpus
from training.errors import ConfigError, EvaluationError
from training.evaluation.arguments import is_path
from training.evaluation.vectors import Encode
from training.models.packages import packaged_folder
from training.models.sentence_encoder import SentenceEncoder  # importing it also registers crosslet checkpoints
from training.models.teacher import load_teacher
from training.system.device import autocast, pick_device
from training.system.files import files_under, fingerprint_files

BATCH = 64  # texts
GPU_BATCH = 512  # a GPU takes as long for 64 short texts
ARTIFACT_CHUNK = 64  # texts a thread takes at once


@dataclass(frozen=True)
class Model:
    """An encoder and its properties.

    encode: applies the default prompt, if there is one.  encode_query, encode_document: apply the search prompts.
    """

    encode: Encode
    encode_query: Encode
    encode_document: Encode
    name: str
    revision: str  # of a folder: a hash of its contents
    languages: list[str] | None  # None: unknown
    dim: int
    max_length: int | None  # tokens
    parameters: int
    framework: Literal["ONNX", "Sentence Transformers"]


def load_model(name: str, *, trust_remote_code: bool = False) -> Model:
    """Load an artifact, a checkpoint or any sentence-transformers model from a folder, or a model from the hub.

    Raises: EvaluationError: there is no such folder, it holds no model, or the model cannot be loaded.
    """
    folder = Path(name)
    if (folder / MANIFEST_FILE).is_file():
        return _load_artifact(folder)
    if folder.is_dir():
        if not any((folder / file).is_file() for file in ("modules.json", "config.json")):
            raise EvaluationError(
                f"{folder} is not a model: it has no {MANIFEST_FILE} (an artifact), no modules.json "
                "(sentence-transformers) and no config.json (transformers)"
            )
    elif is_path(name):
        raise EvaluationError(f"there is no folder {name}")
    return _load_sentence_transformer(name, trust_remote_code)


class TextEncoder:
    """Encodes texts with a `SentenceEncoder` in training.

    Texts are batched by length. In float32 a vector does not depend on its batch, except for rounding.

    Args: bf16: use bf16 where the hardware has it; faster, but a vector then varies slightly between batches.
    """

    def __init__(
        self, model: SentenceEncoder, tokenizer: PreTrainedTokenizerBase, *, max_length: int, bf16: bool = False
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.bf16 = bf16

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """(N, D) float32, in the order of `texts`."""
        order = sorted(range(len(texts)), key=lambda index: (len(texts[index]), texts[index]))  # for less padding
        device = next(self.model.parameters()).device
        size = BATCH if device.type == "cpu" else GPU_BATCH
        vectors = []
        for start in range(0, len(order), size):
            chunk = [stripped(texts[index]) for index in order[start : start + size]]
            batch = self.tokenizer(
                chunk, padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
            ).to(device)
            with torch.inference_mode(), autocast(device) if self.bf16 else torch.autocast(device.type, enabled=False):
                vectors.append(self.model(batch["input_ids"], batch["attention_mask"]).float().cpu().numpy())
        sorted_ND = np.concatenate(vectors)
        vectors_ND = np.empty_like(sorted_ND)
        vectors_ND[order] = sorted_ND
        return vectors_ND


def _load_artifact(folder: Path) -> Model:
    """Load an artifact with the service's encoder; one thread a CPU."""
    try:
        encoder = load_artifact_encoder(folder)
    except ArtifactError as exc:
        raise EvaluationError(str(exc)) from exc

    def encode_chunk(texts: list[str]) -> NDArray[np.float32]:
        return np.stack([one.vector for one in encoder.encode_all(texts)])

    def encode(prompt: str, texts: list[str]) -> NDArray[np.float32]:
        texts = [prompt + text for text in texts]
        chunks = [texts[start : start + ARTIFACT_CHUNK] for start in range(0, len(texts), ARTIFACT_CHUNK)]
        with ThreadPoolExecutor(usable_cpus()) as pool:
            return np.concatenate(list(pool.map(encode_chunk, chunks)))

    manifest = encoder.manifest
    return Model(
        *_behind_prompts(encode, encoder.prompts),
        name=manifest.name,
        revision=manifest.fingerprint,
        languages=list(manifest.languages),
        dim=manifest.dim,
        max_length=manifest.max_length,
        parameters=manifest.parameters,
        framework="ONNX",
    )


def _load_sentence_transformer(name: str, trust_remote_code: bool) -> Model:
    """Load a model in float32 on the first GPU, or the CPU. A plain transformers model is mean-pooled."""
    path = packaged_folder(name) or Path(name)
    try:
        model = load_teacher(name, device=pick_device(), trust_remote_code=trust_remote_code).float()
    except ConfigError as exc:
        raise EvaluationError(str(exc)) from exc

    def encode(prompt: str, texts: list[str]) -> NDArray[np.float32]:
        texts = [stripped(text) for text in texts]  # as served
        vectors_ND: NDArray[np.float32] = model.encode(texts, prompt=prompt, batch_size=BATCH, show_progress_bar=False)
        return vectors_ND

    return Model(
        *_behind_prompts(encode, Prompts(model.prompts, model.default_prompt_name)),
        name=Path(name).resolve().name if Path(name).is_dir() else name,
        revision=_revision(model, path),
        languages=_languages(path),
        dim=int(model.get_embedding_dimension() or 0),
        max_length=model.max_seq_length,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        framework="Sentence Transformers",
    )


def search_prompts(model: SentenceTransformer) -> tuple[str, str]:
    """What a model puts before queries and before documents."""
    prompts = Prompts(model.prompts, model.default_prompt_name)
    return prompts.query, prompts.document


def _behind_prompts(
    encode: Callable[[str, list[str]], NDArray[np.float32]], prompts: Prompts
) -> tuple[Encode, Encode, Encode]:
    """Encoders for texts, queries and documents; equal prompts share an encoder, so no text is encoded twice."""
    of_prompt = {prompt: partial(encode, prompt) for prompt in (prompts.default, prompts.query, prompts.document)}
    return of_prompt[prompts.default], of_prompt[prompts.query], of_prompt[prompts.document]


def _revision(model: SentenceTransformer, folder: Path) -> str:
    if folder.is_dir():
        return fingerprint_files(files_under(folder), relative_to=folder)
    if not hasattr(model[0], "auto_model"):
        return "unknown"
    return str(getattr(model[0].auto_model.config, "_commit_hash", None))


def _languages(folder: Path) -> list[str] | None:
    """The languages named in `crosslet.json` beside a finished checkpoint."""
    summary = folder / "crosslet.json"
    if not summary.is_file():
        return None
    languages: list[str] = json.loads(summary.read_text(encoding="utf-8"))["languages"]
    return languages
