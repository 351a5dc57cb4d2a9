"""The assistant before stage 1: the teacher's body with another vocabulary. Knows no text."""

from __future__ import annotations

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import PretrainedConfig

from training.config import StudentConfig
from training.errors import ConfigError
from training.model import CrossletConfig, CrossletEncoder, shape_of
from training.sentence import SentenceEncoder
from training.teacher import is_normalized

OFFSET_FAMILIES = ("roberta", "xlm-roberta", "camembert")  # number positions from the padding id on
FAMILIES = ("bert", "distilbert", *OFFSET_FAMILIES)


def check_shrinkable(body: PretrainedConfig, student: StudentConfig) -> None:
    """Whether a student of this shape can come from this body.

    Raises: ConfigError: another family, fewer layers than M, or narrower than B.
    """
    if body.model_type not in FAMILIES:
        raise ConfigError(f"the teacher's body is of type {body.model_type!r}; known types: {', '.join(FAMILIES)}")
    if student.unit_layers > body.num_hidden_layers:
        raise ConfigError(f"student.unit_layers is {student.unit_layers}; the teacher has {body.num_hidden_layers}")
    if (student.bottleneck_size or 0) > body.hidden_size:
        raise ConfigError(
            f"student.bottleneck_size is {student.bottleneck_size}; the teacher's width is {body.hidden_size}"
        )


def assistant_from_teacher(
    teacher: SentenceTransformer, embeddings_VH: Tensor, *, pad_id: int, seed: int
) -> SentenceEncoder:
    """The teacher's body with new word embeddings, and a head where its width is not the embedding's (Eq. (2)).

    Args: pad_id: of the new vocabulary; a family that numbers positions from it gets them moved along.
    """
    body = teacher[0].auto_model
    shape = shape_of(body.config, vocab_size=len(embeddings_VH), pad_token_id=pad_id)
    encoder = CrossletEncoder(CrossletConfig(base=shape))
    state = {name: tensor for name, tensor in body.state_dict().items() if not name.startswith("pooler.")}
    state["embeddings.word_embeddings.weight"] = embeddings_VH
    if body.config.model_type in OFFSET_FAMILIES:
        positions = state["embeddings.position_embeddings.weight"]
        state["embeddings.position_embeddings.weight"] = positions.roll(pad_id - body.config.pad_token_id, dims=0)
    encoder.body.load_state_dict(state)
    dim, hidden_size = int(teacher.get_embedding_dimension() or 0), int(encoder.config.hidden_size)
    torch.manual_seed(seed)
    head = nn.Linear(hidden_size, dim) if dim != hidden_size else None
    return SentenceEncoder(encoder, head, normalized=is_normalized(teacher))
