"""Vectors of texts: of a run, each text encoded once; of every hidden layer, of [CLS], and of the mean of all layers.

Shapes: B texts of a batch, L tokens, H hidden, N texts, D dims.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from training.alignment.layers import Vectors
from training.errors import AlignmentError
from training.evaluation.vectors import Encode
from training.models.encoder import mean_pool
from training.models.loading import load_sentence_transformer
from training.models.packages import packaged_folder

CHUNK = 512  # texts between two steps of the bar
BATCH = 32


class Known:
    """Remembers vectors of texts; (N, D) float32 as the model gives them."""

    def __init__(self, encode: Encode, name: str = "vectors") -> None:
        """name: of its bars."""
        self._encode = encode
        self._name = name
        self._vectors: dict[str, Vectors] = {}

    def learn(self, texts: Sequence[str]) -> None:
        """Encode what is new, with a bar.

        Raises: AlignmentError: a vector is not finite.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        with tqdm(total=len(new), desc=self._name, unit="text", disable=not new) as bar:
            for start in range(0, len(new), CHUNK):
                chunk = new[start : start + CHUNK]
                vectors_ND = self._encode(chunk)
                if not np.isfinite(vectors_ND).all():
                    raise AlignmentError("the model gives vectors that are not finite numbers; it cannot be aligned")
                self._vectors.update(zip(chunk, vectors_ND, strict=True))
                bar.update(len(chunk))

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """In the order of the texts."""
        self.learn(texts)
        return np.stack([self._vectors[text] for text in texts])


def layer_vectors(model: str, texts: Sequence[str]) -> dict[str, Vectors]:
    """Name -> (N, H): "1" to the last layer, "all" for their mean, "cls" for the last layer's first token.

    The mean is over real tokens, [CLS] and [SEP] among them; the paper does not say.

    Raises: AlignmentError: the model's body does not give its hidden layers.
    """
    loaded = load_sentence_transformer(str(packaged_folder(model) or model), device="cpu").eval()
    found: dict[str, list[Tensor]] = {}
    for start in range(0, len(texts), BATCH):
        batch = loaded.tokenizer(
            list(texts[start : start + BATCH]),
            padding=True,
            truncation=True,
            max_length=loaded.max_seq_length,
            return_tensors="pt",
        )
        with torch.inference_mode():
            output = loaded[0].auto_model(**batch, output_hidden_states=True)
        hidden = getattr(output, "hidden_states", None)
        if not hidden:
            raise AlignmentError(f"{model} does not give its hidden layers; leave layers out of the study's tables")
        for name, vectors_BH in _of_batch(hidden[1:], batch["attention_mask"]).items():
            found.setdefault(name, []).append(vectors_BH)
    return {name: np.asarray(torch.cat(parts).float().numpy()) for name, parts in found.items()}


def _of_batch(hidden: Sequence[Tensor], attention_mask_BL: Tensor) -> dict[str, Tensor]:
    """hidden: (B, L, H) of each layer."""
    means = {str(number): mean_pool(layer, attention_mask_BL) for number, layer in enumerate(hidden, start=1)}
    return {**means, "all": torch.stack(list(means.values())).mean(dim=0), "cls": hidden[-1][:, 0]}
