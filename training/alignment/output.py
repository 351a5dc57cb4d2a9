"""Writes a model with its head: an artifact by an edit of its graph, a checkpoint by modules behind its own.

Knows files of both kinds; knows no training. The only module of this package that knows `export` and the artifact.

Shapes: D dims.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from export.errors import ExportError
from export.head import ServedHead, add_head
from service.model.artifact import MANIFEST_FILE, ArtifactError, DataLicence
from training.alignment.candidates import Candidate
from training.alignment.head import ACTIVATIONS
from training.alignment.layers import Layer, Vectors
from training.errors import AlignmentError, LoadError
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder
from training.system.files import share

RECORD_FILE = "crosslet.json"


def write_model(
    model: str, out: Path, head: Candidate, *, alignment: Mapping[str, Any], source: str, licence: str
) -> None:
    """Write a copy of the model that gives the vectors the head gives.

    Args:   model: folder of an artifact or a checkpoint, or a hub name.  alignment: what the card says of the head.
            source, licence: of the pairs.
    Raises: AlignmentError: the model cannot take a head, or nothing can be written.
    """
    data = DataLicence(source, licence, "", int(alignment["pairs"]))
    try:
        if (Path(model) / MANIFEST_FILE).is_file():
            add_head(Path(model), out, ServedHead(head.layers, head.mean_D), alignment=alignment, data=data)
        else:
            write_checkpoint(model, out, head, alignment=alignment, data=data)
    except (ArtifactError, ExportError, LoadError) as exc:
        raise AlignmentError(str(exc)) from exc


def write_checkpoint(
    model: str, out: Path, head: Candidate, *, alignment: Mapping[str, Any], data: DataLicence
) -> None:
    """A sentence-transformers folder: the model's own modules, then the head's, then unit length less the mean.

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
        facts["data"] = [*facts.get("data", []), vars(data)]
        text = json.dumps(facts, ensure_ascii=False, indent=1)
        (out / RECORD_FILE).write_text(text, encoding="utf-8")


def remove_model(out: Path) -> None:
    """Remove what an earlier run wrote."""
    if out.is_dir():
        shutil.rmtree(out)


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
