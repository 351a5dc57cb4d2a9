"""Writes a checkpoint with its head, as modules behind its own.

Shapes: D dims.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from training.alignment.candidates import Candidate
from training.alignment.head import ACTIVATIONS
from training.alignment.layers import Layer, Vectors
from training.errors import AlignmentError
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder
from training.system.files import share

RECORD_FILE = "crosslet.json"


def write_checkpoint(
    model: str, out: Path, head: Candidate, *, alignment: Mapping[str, Any], data: Mapping[str, Any]
) -> None:
    """A sentence-transformers folder: the model's own modules, then the head's, then unit length less the mean.

    Args:   model: its folder, or a hub name.  alignment, data: what its record says of the head and of its pairs.
    Raises: AlignmentError: the model cuts its vectors.  LoadError: it cannot be loaded.
    """
    loaded = load_sentence_transformer(str(packaged_folder(model) or model), device="cpu")
    if loaded.truncate_dim is not None:
        raise AlignmentError(f"{model} cuts its vectors to {loaded.truncate_dim} dims; align it without truncate_dim")
    modules = [*loaded, *([] if isinstance(list(loaded)[-1], Normalize) else [Normalize()])]
    modules += [_dense(layer) for layer in head.layers]
    modules += [Normalize(), _dense(_shift(-head.mean_D)), Normalize()]
    aligned = SentenceTransformer(
        modules=modules, device="cpu", prompts=loaded.prompts, default_prompt_name=loaded.default_prompt_name
    )
    aligned.save(str(out), create_model_card=False)
    share(out)
    record = Path(model) / RECORD_FILE
    if record.is_file():
        facts = json.loads(record.read_text(encoding="utf-8"))
        facts["evaluation"] = {"alignment": alignment}
        facts["data"] = [*facts.get("data", []), data]
        text = json.dumps(facts, ensure_ascii=False, indent=1)
        (out / RECORD_FILE).write_text(text, encoding="utf-8")


def _dense(layer: Layer) -> Dense:
    """A layer as sentence-transformers has it."""
    dim = len(layer.bias_D)
    dense = Dense(dim, dim, bias=True, activation_function=_activation(layer))
    dense.linear.load_state_dict({"weight": torch.from_numpy(layer.weight_DD), "bias": torch.from_numpy(layer.bias_D)})
    return dense


def _activation(layer: Layer) -> nn.Module:
    return ACTIVATIONS[layer.activation]()


def _shift(by_D: Vectors) -> Layer:
    """A layer that only adds."""
    return Layer(torch.eye(len(by_D)).numpy(), by_D)
