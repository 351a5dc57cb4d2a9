"""Texts with the ids and vectors an artifact must give on any machine. Knows nothing about files or limits.

N texts, D dims
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from export.checkpoint import Checkpoint, TrainingRecord
from export.encoder import OnnxEncoder
from export.prompts import Asked
from export.texts import PARITY_TEXTS
from service.model.artifact import SCHEMA_VERSION, ParityPack

DECIMALS = 7  # a float32 of a unit vector has no more that matter


def parity_texts(record: TrainingRecord) -> tuple[str, ...]:
    """Each text once, in the record's languages, and last a text of all of them, long enough to be cut."""
    texts = record.parity_texts or {
        language: PARITY_TEXTS[language] for language in record.languages if language in PARITY_TEXTS
    }
    chosen = dict.fromkeys(text for language in texts.values() for text in language) or PARITY_TEXTS["en"]
    words = [word for text in chosen for word in text.split()]
    repeats = record.max_length // len(words) + 1  # a word has at least one token
    return (*chosen, " ".join(words * repeats))


def parity_pack(encoder: OnnxEncoder, texts: Sequence[str], *, prompt: str = "", min_cosine: float) -> ParityPack:
    """What the artifact makes of the texts here, one at a time, each behind the default prompt."""
    given = [prompt + text for text in texts]
    embeddings_ND = encoder.embed(given)
    return ParityPack(
        schema_version=SCHEMA_VERSION,
        min_cosine=min_cosine,
        texts=tuple(texts),
        input_ids=tuple(tuple(encoder.token_ids(text)) for text in given),
        embeddings=tuple(tuple(round(float(value), DECIMALS) for value in row) for row in embeddings_ND),
    )


def torch_embeddings(checkpoint: Checkpoint, texts: Sequence[Asked]) -> npt.NDArray[np.float32]:
    """The reference, by sentence-transformers' own prompts, tokenisation, pooling and heads: (N, D) float32, norm 1.

    texts: each with the name of its prompt; None: the default.
    """
    embed = partial(checkpoint.model.encode, normalize_embeddings=True, show_progress_bar=False)
    return np.stack([embed(text, prompt_name=name) for name, text in texts])


def cosines(left_ND: npt.NDArray[np.floating], right_ND: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Row by row: (N,). In float64: the fp32 gate has a limit of five nines."""
    left_ND, right_ND = left_ND.astype(np.float64), right_ND.astype(np.float64)
    norm_N = np.linalg.norm(left_ND, axis=1) * np.linalg.norm(right_ND, axis=1)
    cosine_N: npt.NDArray[np.float64] = (left_ND * right_ND).sum(axis=1) / norm_N
    return cosine_N
