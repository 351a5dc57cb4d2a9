"""The siamese head, the same one or two layers for both languages; and a checkpoint with a head behind its modules.

Shapes: N sentences, D dims.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from training.alignment.layers import Activation, Head, Layer, Layers
from training.alignment.pairs import with_languages
from training.errors import AlignmentError
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder
from training.system.files import RECORD_FILE, share, write_json_atomically

Structure = Literal["linear", "tanh", "relu", "two-tanh"]
Start = Literal["identity", "random"]
STRUCTURES: tuple[Structure, ...] = get_args(Structure)
LAYERS: dict[Structure, tuple[Activation, ...]] = {  # what follows each linear layer
    "linear": ("identity",),
    "tanh": ("tanh",),
    "relu": ("relu",),
    "two-tanh": ("tanh", "tanh"),
}
ACTIVATIONS: dict[Activation, type[nn.Module]] = {"identity": nn.Identity, "tanh": nn.Tanh, "relu": nn.ReLU}


class SiameseHead(nn.Sequential):
    """Eq. (1), Huang et al. 2023: one head through which the vectors of both languages go, (N, D) -> (N, D).

    Args:
        dim: D.
        structure: one layer, one with an activation, or two with tanh.
        bias: whether layers have one; the paper does not say.
        start: "identity" leaves vectors where they are; "random" is torch's own. The paper does not say.
        dropout: share of a layer's outputs that are zero in training, 0.2 in the paper; its place is ours.
    """

    def __init__(
        self,
        dim: int,
        structure: Structure = "linear",
        *,
        bias: bool = True,
        start: Start = "identity",
        dropout: float = 0.0,
    ) -> None:
        self.activations = LAYERS[structure]
        modules: list[nn.Module] = []
        for activation in self.activations:
            linear = nn.Linear(dim, dim, bias=bias)
            if start == "identity":
                nn.init.eye_(linear.weight)
                if bias:
                    nn.init.zeros_(linear.bias)
            modules += [linear, ACTIVATIONS[activation](), nn.Dropout(dropout)]
        super().__init__(*modules)

    def layers(self) -> Layers:
        """What is served: copies of the weights."""
        layers = []
        for linear, activation in zip(list(self)[::3], self.activations, strict=True):
            state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in linear.state_dict().items()}
            no_bias_D = np.zeros(len(state["weight"]), np.float32)
            layers.append(Layer(state["weight"], state.get("bias", no_bias_D), activation))
        return tuple(layers)


def write_checkpoint(
    model: str,
    out: Path,
    head: Head,
    *,
    alignment: Mapping[str, Any],
    data: Mapping[str, Any],
    trust_remote_code: bool = False,
) -> None:
    """Write a sentence-transformers folder: the model's own modules, the head's, then unit length less the mean.

    Args:   model: its folder, or a hub name.  alignment, data: what its record says of the head and of its pairs.
    Raises: AlignmentError: the model cuts its vectors.  LoadError: it cannot be loaded.
    """
    folder = str(packaged_folder(model) or model)
    loaded = load_sentence_transformer(folder, device="cpu", trust_remote_code=trust_remote_code)
    if loaded.truncate_dim is not None:
        raise AlignmentError(f"{model} cuts its vectors to {loaded.truncate_dim} dims; align it without truncate_dim")
    minus_mean = Layer(np.eye(len(head.mean_D), dtype=np.float32), -head.mean_D)
    modules = [*loaded, *([] if isinstance(list(loaded)[-1], Normalize) else [Normalize()])]
    modules += [*map(_dense, head.layers), Normalize(), _dense(minus_mean), Normalize()]
    aligned = SentenceTransformer(
        modules=modules, device="cpu", prompts=loaded.prompts, default_prompt_name=loaded.default_prompt_name
    )
    aligned.save(str(out), create_model_card=False)
    for code in Path(folder).glob("*.py") if trust_remote_code else ():  # its modules' own, which `save` leaves out
        shutil.copy(code, out)
    share(out)
    record = Path(model) / RECORD_FILE
    if record.is_file():
        facts = json.loads(record.read_text(encoding="utf-8"))
        facts["languages"] = list(with_languages(facts["languages"], alignment["languages"]))
        facts["evaluation"] = {"alignment": alignment}
        facts["data"] = [*facts.get("data", []), data]
        write_json_atomically(out / RECORD_FILE, facts)


def _dense(layer: Layer) -> Dense:
    dim = len(layer.bias_D)
    dense = Dense(dim, dim, bias=True, activation_function=ACTIVATIONS[layer.activation]())
    dense.linear.load_state_dict({"weight": torch.from_numpy(layer.weight_DD), "bias": torch.from_numpy(layer.bias_D)})
    return dense
