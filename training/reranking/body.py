"""Makes a smaller body of a larger one: some layers, the vocabulary of the training text, a narrow word table.

Shapes: V vocabulary, H hidden, B bottleneck, W width of the word table (B or H).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from training.errors import ConfigError
from training.models.cross_encoder import CrossEncoder
from training.models.encoder import (
    BottleneckEmbedding,
    CrossletConfig,
    CrossletEncoder,
    copy_body,
    shape_of,
    word_table,
)
from training.models.start import FAMILIES, OFFSET_FAMILIES, weighted_svd
from training.reranking.config import BodyConfig
from training.vocabulary.pruning import count_pieces, prune_tokenizer


def small_body(
    model: CrossEncoder, tokenizer: PreTrainedTokenizerFast, config: BodyConfig, texts: Sequence[str]
) -> tuple[CrossEncoder, PreTrainedTokenizerFast]:
    """A cross-encoder on a part of this one's body, and its tokenizer.

    Args:   texts: whose pieces are kept and weighted.
    Raises: ConfigError: the body is of another family, lacks a layer, or its vocabulary cannot be pruned.
    """
    base_encoder = model.encoder if isinstance(model.encoder, CrossletEncoder) else _as_crosslet(model)
    width = base_encoder.config.bottleneck_size
    if base_encoder.config.recurrences > 1:
        raise ConfigError("body: the base has a recurrent unit; leave body out")
    if width is not None and config.bottleneck_size not in (None, width):
        raise ConfigError(f"body.bottleneck_size is {config.bottleneck_size}; the base has a bottleneck of {width}")
    base = base_encoder.config.base_config()
    if max(config.layers) >= base.num_hidden_layers:
        raise ConfigError(f"body.layers has {max(config.layers)}; the base's are 0 to {base.num_hidden_layers - 1}")
    pieces = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    counts_V = count_pieces(pieces, texts)
    pruned, kept_ids = prune_tokenizer(pieces, counts_V, config.vocab_size)
    new_tokenizer = PreTrainedTokenizerFast(tokenizer_object=pruned, **tokenizer.special_tokens_map)
    pad_id, kept = int(new_tokenizer.pad_token_id), torch.from_numpy(kept_ids)
    changes = {"num_hidden_layers": len(config.layers), "vocab_size": len(kept), "pad_token_id": pad_id}
    shape = CrossletConfig(base=shape_of(base, **changes), bottleneck_size=width or config.bottleneck_size)
    shape._attn_implementation = model.encoder.config._attn_implementation
    encoder = CrossletEncoder(shape)
    copy_body(base_encoder, encoder, config.layers)
    if base.model_type in OFFSET_FAMILIES:  # positions count from the padding id
        positions = encoder.body.embeddings.position_embeddings.weight
        positions.data = positions.data.roll(pad_id - int(base.pad_token_id), dims=0)
    _copy_words(base_encoder, encoder, kept, torch.from_numpy(counts_V)[kept])
    return CrossEncoder(encoder, sep_id=int(new_tokenizer.sep_token_id)), new_tokenizer


@torch.no_grad()
def _copy_words(source: CrossletEncoder, target: CrossletEncoder, kept_V: Tensor, frequency_V: Tensor) -> None:
    """The kept rows of the word table, narrowed where the target alone has a bottleneck."""
    old, new = source.get_input_embeddings(), target.get_input_embeddings()
    rows_VW = word_table(source).weight[kept_V]
    if isinstance(new, BottleneckEmbedding) and isinstance(old, BottleneckEmbedding):
        new.projection.load_state_dict(old.projection.state_dict())
    elif isinstance(new, BottleneckEmbedding):
        rows_VW, projection_HB = weighted_svd(rows_VW, frequency_V, new.table.embedding_dim)
        new.projection.weight.copy_(projection_HB)
    word_table(target).weight.copy_(rows_VW)


def _as_crosslet(model: CrossEncoder) -> CrossletEncoder:
    body = model.encoder
    if body.config.model_type not in FAMILIES:
        raise ConfigError(f"body: the base is of type {body.config.model_type!r}; known types: {', '.join(FAMILIES)}")
    encoder = CrossletEncoder(CrossletConfig(base=shape_of(body.config)))
    encoder.body.load_state_dict(body.state_dict())
    return encoder
