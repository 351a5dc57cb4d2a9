"""Loads models to score: whatever sentence-transformers can load. `export.evaluation.models` also loads artifacts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerBase

from training.errors import ConfigError, EvaluationError
from training.evaluation.vectors import Encode
from training.models.packages import packaged_folder
from training.models.sentence_encoder import SentenceEncoder  # importing it also registers crosslet checkpoints
from training.models.teacher import load_teacher
from training.system.device import autocast, pick_device
from training.system.files import files_under, fingerprint_files, is_path

BATCH = 64  # texts
GPU_BATCH = 512  # a GPU takes as long for 64 short texts
MANIFEST_FILE = "manifest.json"  # of an artifact
# At the ends of a text, as the service has it in `service.model.tokenizer`.
WHITE_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\u200b\u200e\u200f\u2060\ufeff"
)

Split = Callable[[str], tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Model:
    """An encoder and its properties.

    encode: applies the default prompt, if there is one.  encode_query, encode_document: apply the search prompts.
    split: gives the start and stop of a document's passages as served, none if it is in one; None: no artifact.
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
    split: Split | None = None

    def cut(self, dims: int | None) -> Model:
        """The model with vectors of its first dims; None: all. Raises: EvaluationError: it has fewer."""
        if dims is None:
            return self
        if dims > self.dim:
            raise EvaluationError(f"--dimensions is {dims}; the model has {self.dim}")
        cut = {one: partial(_first, one, dims) for one in (self.encode, self.encode_query, self.encode_document)}
        return replace(
            self,
            dim=dims,
            encode=cut[self.encode],
            encode_query=cut[self.encode_query],
            encode_document=cut[self.encode_document],
        )


def _first(encode: Encode, dims: int, texts: list[str]) -> NDArray[np.float32]:
    return encode(texts)[:, :dims]


LoadModel = Callable[[str], Model]


def refuse_artifact(name: str) -> None:
    """Raises: EvaluationError: a folder holds an artifact, which only `export` can load."""
    if (Path(name) / MANIFEST_FILE).is_file():
        raise EvaluationError(f"{name} is an artifact, which `python -m training` does not read: run training/run.sh")


def load_model(name: str, *, trust_remote_code: bool = False) -> Model:
    """Load a checkpoint or any sentence-transformers model from a folder, or a model from the hub.

    It is in float32, on the first GPU or the CPU. A plain transformers model is mean-pooled.

    Raises: EvaluationError: there is no such folder, it holds no model, or the model cannot be loaded.
    """
    refuse_artifact(name)
    folder = Path(name)
    if folder.is_dir():
        if not any((folder / file).is_file() for file in ("modules.json", "config.json")):
            raise EvaluationError(
                f"{folder} is not a model: it has no {MANIFEST_FILE} (an artifact), no modules.json "
                "(sentence-transformers) and no config.json (transformers)"
            )
    elif is_path(name):
        raise EvaluationError(f"there is no folder {name}")
    path = packaged_folder(name) or folder
    try:
        model = load_teacher(name, device=pick_device(), trust_remote_code=trust_remote_code).float()
    except ConfigError as exc:
        raise EvaluationError(str(exc)) from exc

    def encode(prompt: str, texts: list[str]) -> NDArray[np.float32]:
        texts = [stripped(text) for text in texts]  # as served
        vectors_ND: NDArray[np.float32] = model.encode(texts, prompt=prompt, batch_size=BATCH, show_progress_bar=False)
        return vectors_ND

    return Model(
        *encoders_behind_prompts(encode, default_prompt(model), *search_prompts(model)),
        name=folder.resolve().name if folder.is_dir() else name,
        revision=_revision(model, path),
        languages=_languages(path),
        dim=int(model.get_embedding_dimension() or 0),
        max_length=model.max_seq_length,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def default_prompt(model: SentenceTransformer) -> str:
    """What a model puts before texts that are neither queries nor documents."""
    return "" if model.default_prompt_name is None else str(model.prompts[model.default_prompt_name])


def search_prompts(model: SentenceTransformer) -> tuple[str, str]:
    """What a model puts before queries and before documents: the first prompt of these names that is not empty.

    A copy of what the service does (`service.model.prompts`).
    """

    def first_of(*names: str) -> str:
        found = [model.prompts[name] for name in names if name in model.prompts]
        return next(filter(None, found), "") if found else default_prompt(model)

    return first_of("query"), first_of("document", "passage", "corpus")


def encoders_behind_prompts(
    encode: Callable[[str, list[str]], NDArray[np.float32]], default: str, query: str, document: str
) -> tuple[Encode, Encode, Encode]:
    """Encoders for texts, queries and documents; equal prompts share an encoder, so no text is encoded twice."""
    of_prompt = {prompt: partial(encode, prompt) for prompt in (default, query, document)}
    return of_prompt[default], of_prompt[query], of_prompt[document]


def stripped(text: str) -> str:
    """A text without white space at its ends, as every model reads it; white space alone stays."""
    return text.strip(WHITE_SPACE) or text


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
