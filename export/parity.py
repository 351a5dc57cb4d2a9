"""Makes the parity pack: texts with the token ids and vectors that an artifact must reproduce on any machine.

Shapes: N texts, D dims.
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
from service.model.tokenizer import Tokenizer

DECIMALS = 7  # the precision of float32 in a unit vector


def parity_texts(record: TrainingRecord) -> tuple[str, ...]:
    """The distinct texts in the record's languages; the last one joins them all and is long enough to be truncated."""
    texts = record.parity_texts or {
        language: PARITY_TEXTS[language] for language in record.languages if language in PARITY_TEXTS
    }
    chosen = dict.fromkeys(text for language in texts.values() for text in language) or PARITY_TEXTS["en"]
    words = [word for text in chosen for word in text.split()]
    repeats = record.max_length // len(words) + 1  # a word has at least one token
    return (*chosen, " ".join(words * repeats))


def parity_pack(
    encoder: OnnxEncoder, tokenizer: Tokenizer, texts: Sequence[str], *, prompt: str = "", min_cosine: float
) -> ParityPack:
    """The ids that the service reads and their vectors on this machine, one at a time, with the default prompt."""
    rows = [tokenizer.tokenise(prompt + text).input_ids for text in texts]
    embeddings_ND = encoder.embed_ids(rows)
    return ParityPack(
        schema_version=SCHEMA_VERSION,
        min_cosine=min_cosine,
        texts=tuple(texts),
        input_ids=tuple(tuple(ids) for ids in rows),
        embeddings=tuple(tuple(round(float(value), DECIMALS) for value in row) for row in embeddings_ND),
    )


def torch_embeddings(checkpoint: Checkpoint, texts: Sequence[Asked]) -> npt.NDArray[np.float32]:
    """The reference vectors, computed by sentence-transformers: (N, D) float32, norm 1.

    Args: texts: each with the name of its prompt; None: the default prompt.
    """
    embed = partial(checkpoint.model.encode, normalize_embeddings=True, show_progress_bar=False)
    return np.stack([embed(text, prompt_name=name) for name, text in texts])


def cosines(left_ND: npt.NDArray[np.floating], right_ND: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Cosines row by row: (N,), in float64, since the fp32 gate's limit is 0.99999."""
    left_ND, right_ND = left_ND.astype(np.float64), right_ND.astype(np.float64)
    norm_N = np.linalg.norm(left_ND, axis=1) * np.linalg.norm(right_ND, axis=1)
    cosine_N: npt.NDArray[np.float64] = (left_ND * right_ND).sum(axis=1) / norm_N
    return cosine_N
