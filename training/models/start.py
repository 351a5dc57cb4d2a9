"""Models before training: the assistant from a base encoder, the student from it (Eq. (1), Ding et al. 2022).

Shapes: V vocabulary, H hidden, B bottleneck, D dims of the teacher's embedding.
"""

from __future__ import annotations

import copy
import logging

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, Normalize, Pooling
from torch import Tensor, nn
from transformers import PretrainedConfig

from training.config.run import BLOCK_SIZE, RunConfig, Stage, StudentConfig
from training.errors import ConfigError
from training.models.encoder import BottleneckEmbedding, CrossletConfig, CrossletEncoder, copy_body, shape_of
from training.models.sentence_encoder import SentenceEncoder, split_head

logger = logging.getLogger(__name__)
OFFSET_FAMILIES = ("roberta", "xlm-roberta", "camembert")  # position ids start after the padding id
FAMILIES = ("bert", "distilbert", *OFFSET_FAMILIES)  # MiniLM is a "bert"


def check_shrinkable(body: PretrainedConfig, config: RunConfig) -> None:
    """Check that the configured student can be made from this body.

    Raises: ConfigError: its family is unknown; it has fewer layers than M, is narrower than B, or has fewer positions
        than `max_length`; or `round_words` without a bottleneck needs a width that is a multiple of the block.
    """
    student = config.student
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
    for stage in config.stages:
        if config.stage(stage).round_words and config.word_width(stage) is None and body.hidden_size % BLOCK_SIZE:
            raise ConfigError(
                f"round_words of stage {stage} needs a word table whose width is a multiple of {BLOCK_SIZE}; without a "
                f"bottleneck it is the base encoder's hidden size, {body.hidden_size}"
            )


def check_left_out(base: SentenceTransformer, dim: int, stages: list[Stage]) -> None:
    """Check that stage 1 is trained if the assistant cannot take over all of a base.

    Raises: ConfigError: a part of the base would be lost, and `stages` lacks assistant.
    """
    _, left_out = _head_and_left_out(base, dim)
    names = [name for name, prompt in base.prompts.items() if prompt]
    left_out += [f"prompts ({', '.join(names)})"] if names else []
    left_out += [] if base.truncate_dim is None else [f"truncate_dim {base.truncate_dim}"]
    if left_out and "assistant" not in stages:
        raise ConfigError(
            f"the base encoder has {', '.join(left_out)}, which would be lost; add assistant to stages, so that it "
            "learns to do without, or name another base"
        )
    if left_out:
        logger.info("start: left out of the base encoder: %s", ", ".join(left_out))


def assistant_from_base(
    base: SentenceTransformer,
    embeddings_VH: Tensor | None = None,
    *,
    dim: int,
    normalized: bool,
    pad_id: int,
    seed: int,
) -> SentenceEncoder:
    """The base's body as the assistant, with its head, or a new head if H differs from the label's width (Eq. (2)).

    Args:
        embeddings_VH: word embeddings of another vocabulary; None: the base's.
        dim: of the label.  normalized: whether labels have unit length.
        pad_id: of the assistant's vocabulary; position embeddings are shifted in families that count from it.
    """
    body = base[0].auto_model
    state = {name: tensor for name, tensor in body.state_dict().items() if not name.startswith("pooler.")}
    is_offset, changes = body.config.model_type in OFFSET_FAMILIES, {}
    if embeddings_VH is not None:
        changes = {"vocab_size": len(embeddings_VH), "pad_token_id": pad_id}
        state["embeddings.word_embeddings.weight"] = embeddings_VH
        if is_offset:
            positions = state["embeddings.position_embeddings.weight"]
            state["embeddings.position_embeddings.weight"] = positions.roll(pad_id - body.config.pad_token_id, dims=0)
    elif not is_offset:
        changes = {"pad_token_id": pad_id}  # its row is never trained; MiniLM's own pad_token_id is that of <s>
    encoder = CrossletEncoder(CrossletConfig(base=shape_of(body.config, **changes)))
    encoder.body.load_state_dict(state)
    torch.manual_seed(seed)
    own, _ = _head_and_left_out(base, dim)
    head, hidden_size = None, int(encoder.config.hidden_size)
    if own is not None or dim != hidden_size:
        head = nn.Linear(hidden_size, dim)  # float32, with a bias
    if head is not None and own is not None:
        head.load_state_dict({"bias": torch.zeros(dim), **own.linear.state_dict()})
    return SentenceEncoder(encoder, head, normalized=normalized)


def _head_and_left_out(base: SentenceTransformer, dim: int) -> tuple[Dense | None, list[str]]:
    """The base's head, (D, H), and the names of its modules that the assistant cannot keep.

    Normalize is ignored: the teacher decides on unit length.
    """
    head, left_out = split_head(list(base)[1:])
    if head is not None and head.linear.weight.shape != (dim, base[0].auto_model.config.hidden_size):
        left_out.insert(0, head)
        head = None
    return head, [_name(module) for module in left_out if not isinstance(module, (Normalize, Dropout))]


def _name(module: nn.Module) -> str:
    if isinstance(module, Pooling):
        modes = [module.pooling_mode] if isinstance(module.pooling_mode, str) else module.pooling_mode
        return f"{' and '.join(modes)} pooling"
    if isinstance(module, Dense):
        return f"Dense ({module.in_features} to {module.out_features}, {type(module.activation_function).__name__})"
    return type(module).__name__


def student_from_assistant(
    assistant: SentenceEncoder, config: StudentConfig, token_frequency_V: NDArray[np.int64], *, seed: int
) -> SentenceEncoder:
    """A student of M of the assistant's layers, applied K times; its word embeddings are whole, an SVD, or random.

    Args:   token_frequency_V: token weights of the SVD.  seed: of a random bottleneck.
    Raises: ConfigError: the assistant has fewer than M layers, or lacks a configured layer.
    """
    base = assistant.encoder.config.base_config()
    if config.unit_layers > base.num_hidden_layers:
        raise ConfigError(f"student.unit_layers is {config.unit_layers}; the assistant has {base.num_hidden_layers}")
    if config.layers is not None and max(config.layers) >= base.num_hidden_layers:
        raise ConfigError(
            f"student.layers has {max(config.layers)}; the assistant's are 0 to {base.num_hidden_layers - 1}"
        )
    shape = shape_of(base, num_hidden_layers=config.unit_layers)
    student_config = CrossletConfig(base=shape, bottleneck_size=config.bottleneck_size, recurrences=config.recurrences)
    student_config._attn_implementation = assistant.encoder.config._attn_implementation
    torch.manual_seed(seed)
    encoder = CrossletEncoder(student_config)
    copy_body(assistant.encoder, encoder, config.layers)
    table_VH: Tensor = assistant.encoder.body.get_input_embeddings().weight.detach()
    words = encoder.get_input_embeddings()
    with torch.no_grad():
        if not isinstance(words, BottleneckEmbedding):
            encoder.body.get_input_embeddings().weight.copy_(table_VH)
        elif config.bottleneck_start == "svd":
            frequency_V = torch.from_numpy(token_frequency_V).to(table_VH.device)
            table_VB, projection_HB = weighted_svd(table_VH, frequency_V, words.table.embedding_dim)
            words.table.weight.copy_(table_VB)
            words.projection.weight.copy_(projection_HB)
    return SentenceEncoder(encoder, copy.deepcopy(assistant.head), normalized=assistant.normalized)


def weighted_svd(embeddings_VH: Tensor, frequency_V: Tensor, bottleneck_size: int) -> tuple[Tensor, Tensor]:
    """The best rank-B factors of a word-embedding table, with tokens weighted by frequency.

    Minimises sum_v f_v ||E_v - T_v P||^2 over T (V x B) and P (B x H): P spans the top B eigenvectors of E' F E and
    T is E's projection on them. This minimises stage 2's error (Eq. (3), Ding et al. 2022) before position embeddings
    and LayerNorm. Not in the paper.

    Args:    frequency_V: occurrences of each token, >= 0.
    Returns: table T (V, B) and projection weight P' (H, B) as `nn.Linear(B, H)` stores it; T is scaled to
             the standard deviation of E.
    """
    embeddings = embeddings_VH.double()
    # + 1: tokens that the sample lacks still count a little
    covariance_HH = embeddings.T @ ((frequency_V.double() + 1.0).unsqueeze(1) * embeddings)
    _, eigenvectors_HH = torch.linalg.eigh(covariance_HH)  # ascending
    basis_HB = eigenvectors_HH[:, -bottleneck_size:].flip(1)
    table_VB = embeddings @ basis_HB
    scale = embeddings.std() / table_VB.std()
    return (table_VB * scale).float(), (basis_HB / scale).float()
