"""Opens an artifact that can be restored, and turns it back into a module that training goes on with.

Shapes: B width of the word table, L tokens, H hidden, D dims of the sentence embedding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tokenizers  # type: ignore[import-untyped]
import torch
from torch import Tensor, nn
from transformers import BertConfig, PreTrainedTokenizerFast

from export.errors import BadRequest, Refused
from export.restore.weights import READABLE, Weights, read_weights
from service.model.artifact import (
    MODEL_FILE,
    TOKENIZER_FILE,
    Manifest,
    ParityPack,
    load_manifest,
    load_parity,
    verify_files,
)
from training.models.encoder import CrossletConfig, CrossletEncoder, shape_of
from training.models.sentence_encoder import SentenceEncoder

SPECIAL_TOKENS = {  # as written by BERT, and by SentencePiece models
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}
UNREADABLE = (KeyError, IndexError, StopIteration, ValueError, RuntimeError)  # a graph of another kind
Embed = Callable[[Tensor], Tensor]  # token ids of a text, (1, L) -> (1, D)
WORDS = "embeddings.word_embeddings"


@dataclass(frozen=True)
class Source:
    """An artifact as it is restored from."""

    folder: Path
    manifest: Manifest
    parity: ParityPack
    tokenizer: PreTrainedTokenizerFast
    weights: Weights

    def config(self) -> BertConfig:
        """The shape of its body, with recurrences unrolled."""
        state = self.weights.state
        return BertConfig(
            vocab_size=len(state[f"{WORDS}.weight"]),
            hidden_size=state["embeddings.position_embeddings.weight"].shape[1],
            num_hidden_layers=sum(name.endswith("intermediate.dense.weight") for name in state),
            num_attention_heads=self.weights.heads,
            intermediate_size=len(state["encoder.layer.0.intermediate.dense.weight"]),
            max_position_embeddings=len(state["embeddings.position_embeddings.weight"]),
            type_vocab_size=len(state["embeddings.token_type_embeddings.weight"]),
            layer_norm_eps=self.weights.epsilon,
            pad_token_id=int(self.tokenizer.pad_token_id),
        )

    def head(self) -> nn.Linear | None:
        """The layer after its pooling."""
        if self.weights.head is None:
            return None
        weight_DH, bias_D = (torch.from_numpy(np.array(value)) for value in self.weights.head)
        head = nn.Linear(weight_DH.shape[1], len(weight_DH))
        head.load_state_dict({"weight": weight_DH, "bias": bias_D})
        return head

    @torch.no_grad()
    def record(self) -> dict[str, Any]:
        """What `crosslet.json` says of a checkpoint made from it; its scores are left out: training changes them."""
        manifest = self.manifest
        names = ("config", "git_commit", "pairs_seen")
        return {name: manifest.training[name] for name in names if name in manifest.training} | {
            "name": manifest.name,
            "languages": list(manifest.languages),
            "max_length": manifest.max_length,
            "data": [asdict(licence) for licence in manifest.data_licences],
            "parity_texts": {"parity": list(self.parity.texts[:-1])},  # the last joins the others
        }

    def check(self, embed: Embed) -> float:
        """The lowest cosine of a restored model's vectors to those of the parity pack.

        Raises: Refused: it is under the pack's minimum.
        """
        cosines = []
        for ids, vector in zip(self.parity.input_ids, self.parity.embeddings, strict=True):
            embedding_1D = embed(torch.tensor([list(ids)]))[:, : len(vector)]  # truncate_dim
            cosines.append(torch.cosine_similarity(embedding_1D, torch.tensor([vector])).item())
        lowest, limit = min(cosines), self.parity.min_cosine
        if lowest < limit:
            raise Refused(
                f"{self.folder}: the lowest cosine of a restored vector is {lowest:.4f}; the limit is {limit}"
            )
        return lowest


def open_source(folder: Path) -> Source:
    """Read and verify an artifact.

    Raises: ArtifactError: it is damaged.  BadRequest: artifacts of its kind cannot be restored.
    """
    manifest = load_manifest(folder)
    if manifest.kind != "bi-encoder" or manifest.padding != "skipped":
        raise BadRequest(f"{folder} is a {manifest.kind}, padding {manifest.padding}; {READABLE}")
    verify_files(folder, manifest)
    parity = load_parity(folder, manifest)
    tokenizer = _tokenizer(folder / TOKENIZER_FILE, max_length=manifest.max_length)
    try:
        weights = read_weights(onnx.load(folder / MODEL_FILE))
    except UNREADABLE as exc:
        raise unreadable(folder, exc) from exc
    return Source(folder, manifest, parity, tokenizer, weights)


def unreadable(folder: Path, exc: Exception) -> BadRequest:
    """What to raise where a graph is of another kind than its nodes promised."""
    return BadRequest(f"the graph of {folder} cannot be read ({type(exc).__name__}); {READABLE}")


def _tokenizer(path: Path, *, max_length: int) -> PreTrainedTokenizerFast:
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    vocabulary = tokenizer.get_vocab()
    special = {role: name for role, names in SPECIAL_TOKENS.items() for name in names[::-1] if name in vocabulary}
    if "pad_token" not in special:
        raise BadRequest(f"{path.parent}: {path.name} has no padding token ({', '.join(SPECIAL_TOKENS['pad_token'])})")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_length, **special)


def restored_student(source: Source) -> SentenceEncoder:
    """The artifact's model in float32, with eager attention, which trains faster on a CPU.

    Raises: BadRequest: its graph is of another kind.  Refused: its vectors differ from the artifact's.
    """
    try:
        model = _student(source)
    except UNREADABLE as exc:
        raise unreadable(source.folder, exc) from exc
    source.check(lambda ids_1L: model(ids_1L, torch.ones_like(ids_1L)))
    return model


def _student(source: Source) -> SentenceEncoder:
    projection_BH, state, width = source.weights.projection_BH, dict(source.weights.state), None
    if projection_BH is not None:
        width = len(projection_BH)
        state[f"{WORDS}.table.weight"] = state.pop(f"{WORDS}.weight")
        state[f"{WORDS}.projection.weight"] = projection_BH.T
    config = CrossletConfig(base=shape_of(source.config()), bottleneck_size=width)
    config._attn_implementation = "eager"
    encoder = CrossletEncoder(config)
    encoder.body.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    return SentenceEncoder(encoder, source.head(), normalized=True).eval()
