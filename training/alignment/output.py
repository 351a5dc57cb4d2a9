"""Writes a checkpoint with its head, as modules behind its own.

Shapes: D dims.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from training.alignment.candidates import Candidate
from training.alignment.head import ACTIVATIONS
from training.alignment.layers import Layer
from training.alignment.pairs import with_languages
from training.errors import AlignmentError
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder
from training.system.files import share

RECORD_FILE = "crosslet.json"


def write_checkpoint(
    model: str, out: Path, head: Candidate, *, alignment: Mapping[str, Any], data: Mapping[str, Any]
) -> None:
    """Write a sentence-transformers folder: the model's own modules, the head's, then unit length less the mean.

    Args:   model: its folder, or a hub name.  alignment, data: what its record says of the head and of its pairs.
    Raises: AlignmentError: the model cuts its vectors.  LoadError: it cannot be loaded.
    """
    loaded = load_sentence_transformer(str(packaged_folder(model) or model), device="cpu")
    if loaded.truncate_dim is not None:
        raise AlignmentError(f"{model} cuts its vectors to {loaded.truncate_dim} dims; align it without truncate_dim")
    minus_mean = Layer(np.eye(len(head.mean_D), dtype=np.float32), -head.mean_D)
    modules = [*loaded, *([] if isinstance(list(loaded)[-1], Normalize) else [Normalize()])]
    modules += [*map(_dense, head.layers), Normalize(), _dense(minus_mean), Normalize()]
    aligned = SentenceTransformer(
        modules=modules, device="cpu", prompts=loaded.prompts, default_prompt_name=loaded.default_prompt_name
    )
    aligned.save(str(out), create_model_card=False)
    share(out)
    record = Path(model) / RECORD_FILE
    if record.is_file():
        facts = json.loads(record.read_text(encoding="utf-8"))
        facts["languages"] = list(with_languages(facts["languages"], alignment["languages"]))
        facts["evaluation"] = {"alignment": alignment}
        facts["data"] = [*facts.get("data", []), data]
        (out / RECORD_FILE).write_text(json.dumps(facts, ensure_ascii=False, indent=1), encoding="utf-8")


def _dense(layer: Layer) -> Dense:
    dim = len(layer.bias_D)
    dense = Dense(dim, dim, bias=True, activation_function=ACTIVATIONS[layer.activation]())
    dense.linear.load_state_dict({"weight": torch.from_numpy(layer.weight_DD), "bias": torch.from_numpy(layer.bias_D)})
    return dense
