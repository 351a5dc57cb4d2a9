"""Adapts a model to `mteb.evaluate`: an artifact as it is served, a checkpoint, or any other model folder.

mteb.evaluate(MtebModel("models/default"), mteb.get_tasks(tasks=["STS17"]))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.evaluation.encoders import load_model
from training.evaluation.vectors import unit_rows

try:
    from mteb.models import ModelMeta
    from mteb.types import PromptType
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError("this needs mteb: `make setup-dev` installs it", name=exc.name) from exc


class MtebModel:
    """Implements mteb's `EncoderProtocol`: applies the model's own prompts and compares by cosine.

    Args:
        model_name: a folder or hub name, as for `crosslet evaluate`.
        revision, device: passed by mteb and ignored: a folder has one revision; the first GPU or else the CPU is used.
    Raises: EvaluationError: there is no such model.
    """

    def __init__(self, model_name: str, revision: str | None = None, device: str | None = None, **_: Any) -> None:
        model = load_model(model_name)
        self._encode = model.encode
        self._of_search = {PromptType.query: model.encode_query, PromptType.document: model.encode_document}
        self.mteb_model_meta = ModelMeta(
            loader=None,
            name=model.name if "/" in model.name else f"local/{model.name}",
            revision=model.revision,  # a hash of the contents, since mteb caches results by name and revision
            release_date=None,
            languages=None,
            n_parameters=model.parameters,
            memory_usage_mb=None,
            max_tokens=model.max_length,
            embed_dim=model.dim,
            license=None,
            open_weights=True,
            public_training_code=None,
            public_training_data=None,
            framework=[model.framework],
            similarity_fn_name="cosine",
            use_instructions=False,
            training_datasets=None,
        )

    def encode(
        self, inputs: Iterable[dict[str, list[str]]], *, prompt_type: PromptType | None = None, **_: Any
    ) -> NDArray[np.float32]:
        """Encode the texts of all batches, in order: (N, D) float32. prompt_type: query or document."""
        encode = self._encode if prompt_type is None else self._of_search[prompt_type]
        return encode([text for batch in inputs for text in batch["text"]])

    def similarity(self, embeddings1: NDArray[np.float32], embeddings2: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosines between all rows of one and all rows of the other."""
        scores: NDArray[np.float32] = unit_rows(np.atleast_2d(embeddings1)) @ unit_rows(np.atleast_2d(embeddings2)).T
        return scores

    def similarity_pairwise(
        self, embeddings1: NDArray[np.float32], embeddings2: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Cosines between row i of one and row i of the other."""
        scores: NDArray[np.float32] = (unit_rows(embeddings1) * unit_rows(embeddings2)).sum(axis=1)
        return scores
