"""The encoder: a BERT-family body with an embedding bottleneck and a recurrent unit.

Shapes: B batch, L tokens, H hidden, V vocabulary, S weights of a block, G blocks of a row.

One class serves the assistant (no bottleneck, no recurrence) and the student (both): Ding et al. 2022, section 3.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel

from training.config.run import BLOCK_SIZE
from training.errors import ConfigError

FIRST_ROWS = 8  # positions that every text has


class CrossletConfig(PretrainedConfig):
    """Shape of an encoder: the body's transformers configuration, the bottleneck and the recurrence.

    Args:
        base: configuration of the body as a dict with its `model_type`; `num_hidden_layers` is M, the unit's depth.
        bottleneck_size: B, or None to keep the body's own V x H embedding table.
        recurrences: K, how many times the unit is applied.
    """

    model_type = "crosslet"

    def __init__(
        self,
        base: dict[str, Any] | None = None,
        bottleneck_size: int | None = None,
        recurrences: int = 1,
        **kwargs: Any,
    ) -> None:
        self.base = base or {"model_type": "bert"}
        self.bottleneck_size = bottleneck_size
        self.recurrences = recurrences
        super().__init__(**kwargs)

    def base_config(self) -> PretrainedConfig:
        """The body's configuration as transformers reads it."""
        fields = {key: value for key, value in self.base.items() if key != "model_type"}
        config: PretrainedConfig = AutoConfig.for_model(self.base["model_type"], **fields)
        return config

    @property
    def hidden_size(self) -> int:
        """H, whatever the body's family calls it."""
        return int(self.base_config().hidden_size)

    @property
    def vocab_size(self) -> int:
        """V."""
        return int(self.base_config().vocab_size)


class BottleneckEmbedding(nn.Module):
    """Word embeddings through a narrow table: V x B, then B x H without bias (Ding et al. 2022, section 3.1).

    It starts as `nn.Embedding` and `nn.Linear` do, as in the authors' code: an embedding's deviation is 0.577.
    """

    def __init__(self, vocab_size: int, bottleneck_size: int, hidden_size: int, padding_idx: int | None) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, bottleneck_size, padding_idx=padding_idx)
        self.projection = nn.Linear(bottleneck_size, hidden_size, bias=False)

    def forward(self, input_ids_BL: Tensor) -> Tensor:
        """Embed token ids: (B, L) int64 -> (B, L, H)."""
        embedding_BLH: Tensor = self.projection(self.table(input_ids_BL))
        return embedding_BLH


class RecurrentUnit(nn.ModuleList):
    """M layers stored once and iterated K times, in order: RU = {L_1..L_M} (Eq. (1), Ding et al. 2022).

    A drop-in for the layer list of a transformers encoder. Only iteration repeats layers: parameters, the state dict
    and `len()` have each layer once.
    """

    def __init__(self, layers: list[nn.Module], recurrences: int) -> None:
        super().__init__(layers)
        self.recurrences = recurrences

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(list(self._modules.values()) * self.recurrences)


class CrossletEncoder(PreTrainedModel):
    """A body of the BERT, RoBERTa, XLM-R, DistilBERT or MiniLM family with bottleneck and recurrence.

    The body runs transformers' code, so position offsets, token types and padding ids are the family's.
    """

    config_class = CrossletConfig
    base_model_prefix = "crosslet"
    _supports_sdpa = True

    def __init__(self, config: CrossletConfig) -> None:
        super().__init__(config)
        base_config = config.base_config()
        self.body = build_body(base_config, attention=config._attn_implementation or "eager")
        stack = layer_stack(self.body)
        stack.layer = RecurrentUnit(list(stack.layer), config.recurrences)
        self.body.config.num_hidden_layers *= (
            config.recurrences
        )  # the body has per-layer lists, one entry an application
        self.post_init()
        if config.bottleneck_size is not None:  # after post_init, which would draw it anew, 130 times smaller
            self.body.embeddings.word_embeddings = BottleneckEmbedding(
                base_config.vocab_size, config.bottleneck_size, base_config.hidden_size, base_config.pad_token_id
            )

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> Any:
        """Encode token ids.

        Args:    input_ids: (B, L) int64.  attention_mask: (B, L) int64, 1 = token, 0 = padding.
        Returns: transformers' output object; `last_hidden_state` is (B, L, H).
        """
        return self.body(input_ids=input_ids, attention_mask=attention_mask)

    def embed_tokens(self, input_ids_BL: Tensor) -> Tensor:
        """Output of the whole embedding layer, LayerNorm included: (B, L) -> (B, L, H), the target of Eq. (3)."""
        embedding_BLH: Tensor = self.body.embeddings(input_ids_BL)
        return embedding_BLH

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings: an `nn.Embedding`, or a `BottleneckEmbedding`."""
        module: nn.Module = self.body.embeddings.word_embeddings
        return module

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embeddings."""
        self.body.embeddings.word_embeddings = value


def word_table(encoder: CrossletEncoder) -> nn.Embedding:
    """The table of word embeddings: V x H, or V x B of a bottleneck."""
    words = encoder.get_input_embeddings()
    table = words.table if isinstance(words, BottleneckEmbedding) else words
    assert isinstance(table, nn.Embedding)  # noqa: S101  (for the type checker)
    return table


def shape_of(config: PretrainedConfig, **changes: Any) -> dict[str, Any]:
    """A body's configuration as `CrossletConfig.base` holds it: its shape, without paths and versions."""
    provenance = {"_name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype", "use_cache"}
    shape = {key: value for key, value in config.to_diff_dict().items() if key not in provenance}
    shape["model_type"] = config.model_type
    for name, value in changes.items():
        shape[config.attribute_map.get(name, name)] = value
    return shape


def build_body(config: PretrainedConfig, attention: str) -> Any:
    """A randomly initialised body without the pooler of its pre-training task."""
    model_class = AutoModel._model_mapping[type(config)]
    options: dict[str, Any] = {"attn_implementation": attention}
    if "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        options["add_pooling_layer"] = False  # unused: sentence embeddings are mean-pooled
    return AutoModel.from_config(config, **options)


def layer_stack(body: Any) -> Any:
    """The module that owns the body's `layer` list: `encoder`, or in DistilBERT `transformer`."""
    return body.encoder if hasattr(body, "encoder") else body.transformer


def compile_layers(encoder: CrossletEncoder) -> None:
    """Compile each layer in place, for any batch and length; weights and their names are unchanged."""
    for layer in layer_stack(encoder.body).layer.children():
        layer.compile(dynamic=True)


def copy_body(source: CrossletEncoder, target: CrossletEncoder, layers: Sequence[int] | None = None) -> None:
    """Initialise `target` from `source`: M of its layers and all else except the word embeddings.

    Args:   layers: which M, in order; None: the first M.
    Raises: ValueError: the source lacks a parameter of the target.
    """
    new_number = None if layers is None else {old: new for new, old in enumerate(layers)}
    state = {
        name: tensor
        for old_name, tensor in source.state_dict().items()
        if not old_name.startswith("body.embeddings.word_") and (name := _renumbered(old_name, new_number))
    }
    wanted = target.state_dict().keys()
    kept = {name: tensor for name, tensor in state.items() if name in wanted}
    missing = target.load_state_dict(kept, strict=False).missing_keys
    unexplained = [name for name in missing if not name.startswith("body.embeddings.word_embeddings")]
    if unexplained:
        raise ValueError(f"the source encoder has no {', '.join(unexplained)}")


def _renumbered(name: str, new_number: dict[int, int] | None) -> str | None:
    """A parameter's name under the new layer numbers; None: its layer is dropped."""
    match = re.fullmatch(r"(.*\.layer\.)(\d+)(\..*)", name)
    if match is None or new_number is None:
        return name
    number = new_number.get(int(match[2]))
    return None if number is None else f"{match[1]}{number}{match[3]}"


def lengthen_positions(encoder: CrossletEncoder, table_LH: Tensor, trained: int, length: int) -> CrossletEncoder:
    """An encoder of at least `length` positions: those from `trained` on are the base's, moved like the others.

    Training moved the others by `move_H` on average; the first positions, which every text has, do not count.

    Args: table_LH: the base's positions.  trained: tokens of the longest text in training.
    """
    shape = encoder.config.base_config()
    own_LH = encoder.body.embeddings.position_embeddings.weight.detach().cpu()
    trained, rows = min(trained, len(own_LH)), max(length, len(own_LH))
    move_H = (own_LH[FIRST_ROWS:trained] - table_LH[FIRST_ROWS:trained]).mean(dim=0)
    state = encoder.state_dict()
    state["body.embeddings.position_embeddings.weight"] = torch.cat([own_LH[:trained], table_LH[trained:rows] + move_H])
    config = CrossletConfig(
        base=shape_of(shape, max_position_embeddings=rows),
        bottleneck_size=encoder.config.bottleneck_size,
        recurrences=encoder.config.recurrences,
    )
    config._attn_implementation = "sdpa"  # at 256 tokens faster than eager on a CPU, too
    longer = CrossletEncoder(config)
    longer.load_state_dict(state)
    longer.eval()
    return longer


def mean_pool(token_embedding_BLH: Tensor, attention_mask_BL: Tensor) -> Tensor:
    """Average the real-token embeddings of each sentence.

    Args:    token_embedding_BLH: float.  attention_mask_BL: int64, 1 = token, 0 = padding; each row has a token.
    Returns: (B, H) float32, not normalised.
    """
    mask_BL1 = attention_mask_BL.unsqueeze(-1).to(torch.float32)
    return (token_embedding_BLH.float() * mask_BL1).sum(dim=1) / mask_BL1.sum(dim=1)


class ParameterCounts(NamedTuple):
    """Parameters as the paper counts them, without token types and the embedding LayerNorm (a few thousand)."""

    words: int  # V x H, or V x B + B x H
    positions: int
    layers: int  # the unit's, once

    @property
    def embedding(self) -> int:
        """What the paper's tables call embedding parameters."""
        return self.words + self.positions


def parameter_counts(encoder: CrossletEncoder) -> ParameterCounts:
    """Parameters of the word embeddings, the position embeddings and the layers."""
    embeddings = encoder.body.embeddings
    parts = embeddings.word_embeddings, embeddings.position_embeddings, layer_stack(encoder.body).layer
    return ParameterCounts(*(sum(p.numel() for p in part.parameters()) for part in parts))


AutoConfig.register(CrossletConfig.model_type, CrossletConfig)
AutoModel.register(CrossletConfig, CrossletEncoder)


LEVELS = 15  # steps between a block's minimum and maximum


def train_with_rounded_words(encoder: CrossletEncoder) -> None:
    """Make the word table return rows rounded as `--word-bits 4` stores them; its weights stay float32.

    Gradients pass the rounding unchanged: the straight-through estimator (Bengio et al. 2013,
    "Estimating or Propagating Gradients Through Stochastic Neurons").

    Raises: ConfigError: the table's width is not a multiple of the block.
    """
    table = word_table(encoder)
    if table.embedding_dim % BLOCK_SIZE:
        raise ConfigError(
            f"round_words needs a word table whose width is a multiple of {BLOCK_SIZE}, not {table.embedding_dim}"
        )
    table.register_forward_hook(lambda _module, _ids, rows: rows + (rounded(rows) - rows).detach())


@torch.no_grad()
def rounded(rows: Tensor) -> Tensor:
    """Round each block to 16 levels over its range, 0 included, with a float16 scale: (..., B) float32 -> (..., B)."""
    block_GS = rows.reshape(*rows.shape[:-1], -1, BLOCK_SIZE)
    low_G1 = block_GS.amin(-1, keepdim=True).clamp(max=0)
    high_G1 = block_GS.amax(-1, keepdim=True).clamp(min=0)
    scale_G1 = ((high_G1 - low_G1) / LEVELS).half().float()
    step_G1 = torch.where(scale_G1 > 0, scale_G1, 1)  # a block of zeros stays zeros
    zero_G1 = (-low_G1 / step_G1).round().clamp(0, LEVELS)
    code_GS = ((block_GS / step_G1).round() + zero_G1).clamp(0, LEVELS)
    return ((code_GS - zero_G1) * scale_G1).reshape(rows.shape)
