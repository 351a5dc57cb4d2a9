"""The assistant before stage 1: a base encoder's body, with its own word embeddings or new ones. Knows no text."""

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
FAMILIES = ("bert", "distilbert", *OFFSET_FAMILIES)  # MiniLM is a "bert"


def check_shrinkable(body: PretrainedConfig, student: StudentConfig) -> None:
    """Whether a student of this shape can come from this body.

    Raises: ConfigError: another family, fewer layers than M, narrower than B, or fewer positions than `max_length`.
    """
    if body.model_type not in FAMILIES:
        raise ConfigError(f"the base encoder is of type {body.model_type!r}; known types: {', '.join(FAMILIES)}")
    reserved = body.pad_token_id + 1 if body.model_type in OFFSET_FAMILIES else 0
    limits = {
        "unit_layers": (student.unit_layers, body.num_hidden_layers),
        "bottleneck_size": (student.bottleneck_size or 0, body.hidden_size),
        "max_length": (student.max_length, body.max_position_embeddings - reserved),
    }
    for name, (wanted, available) in limits.items():
        if wanted > available:
            raise ConfigError(f"student.{name} is {wanted}; the base encoder allows {available}")


def assistant_from_base(
    base: SentenceTransformer,
    teacher: SentenceTransformer,
    embeddings_VH: Tensor | None = None,
    *,
    pad_id: int,
    seed: int,
) -> SentenceEncoder:
    """The base's body as the assistant, with a head where its width is not that of the teacher's embeddings (Eq. (2)).

    Args:
        embeddings_VH: of another vocabulary; None: the base keeps its own.
        pad_id: of the assistant's vocabulary; a family that numbers positions from it gets them moved along.
    """
    body = base[0].auto_model
    state = {name: tensor for name, tensor in body.state_dict().items() if not name.startswith("pooler.")}
    changes = {}
    if embeddings_VH is not None:
        changes = {"vocab_size": len(embeddings_VH), "pad_token_id": pad_id}
        state["embeddings.word_embeddings.weight"] = embeddings_VH
        if body.config.model_type in OFFSET_FAMILIES:
            positions = state["embeddings.position_embeddings.weight"]
            state["embeddings.position_embeddings.weight"] = positions.roll(pad_id - body.config.pad_token_id, dims=0)
    encoder = CrossletEncoder(CrossletConfig(base=shape_of(body.config, **changes)))
    encoder.body.load_state_dict(state)
    dim, hidden_size = int(teacher.get_embedding_dimension() or 0), int(encoder.config.hidden_size)
    torch.manual_seed(seed)
    head = nn.Linear(hidden_size, dim) if dim != hidden_size else None
    return SentenceEncoder(encoder, head, normalized=is_normalized(teacher))
