"""`python -m export.restore ARTIFACT --out DIR`: writes an artifact's weights as a sentence-transformers folder.

Use it to continue training when only the artifact is left (`base` of a configuration), or to run the model in
sentence-transformers. Weights keep their int8 rounding; recurrences are unrolled into layers.

Shapes: V vocabulary, H hidden, D dims of the sentence embedding.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import tokenizers  # type: ignore[import-untyped]
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from export.__main__ import say, status_of
from export.errors import BadRequest, Refused
from export.restore.weights import READABLE, Weights, read_weights
from service.model.artifact import (
    MODEL_FILE,
    TOKENIZER_FILE,
    ParityPack,
    load_manifest,
    load_parity,
    verify_files,
)
from training.models.loading import load_body

SPECIAL_TOKENS = {  # as written by BERT, and by SentencePiece models
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, 2 with the reason on stderr, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m export.restore", description="Turn an artifact back into a sentence-transformers folder."
    )
    parser.add_argument("artifact", type=Path, help="artifact folder, e.g. models/default")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; it must not exist")
    options = parser.parse_args(arguments)
    return status_of(lambda: restore(options.artifact, options.out))


def restore(artifact: Path, out: Path) -> None:
    """Write `out`, if the restored model reproduces the parity pack's vectors to the pack's minimum cosine.

    Raises: ArtifactError: the artifact is damaged.
            BadRequest: `out` exists, or artifacts of this kind cannot be restored.
            Refused: the vectors differ.
    """
    if out.exists():
        raise BadRequest(f"{out} exists; choose another --out")
    manifest = load_manifest(artifact)
    if manifest.kind != "bi-encoder" or manifest.padding != "skipped":
        raise BadRequest(f"{artifact} is a {manifest.kind}, padding {manifest.padding}; {READABLE}")
    verify_files(artifact, manifest)
    parity = load_parity(artifact, manifest)
    tokenizer = _tokenizer(artifact / TOKENIZER_FILE, max_length=manifest.max_length)
    try:
        weights = read_weights(onnx.load(artifact / MODEL_FILE))
        body, head = _body(weights, pad_id=int(tokenizer.pad_token_id)), _head(weights)
        lowest = _lowest_cosine(body, head, parity)
    except (KeyError, IndexError, StopIteration, ValueError, RuntimeError) as exc:  # a graph of another kind
        raise BadRequest(f"the graph of {artifact} cannot be read ({type(exc).__name__}); {READABLE}") from exc
    say(f"lowest cosine to the artifact's vectors {lowest:.4f} over {len(parity.texts)} texts")
    if lowest < parity.min_cosine:
        raise Refused(
            f"{artifact}: the lowest cosine of a restored vector is {lowest:.4f}; the limit is {parity.min_cosine}"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        stage = Path(scratch) / "new"
        body.save_pretrained(stage)
        tokenizer.save_pretrained(stage)
        modules: list[nn.Module] = [load_body(stage, Transformer, max_length=manifest.max_length)]
        modules.append(Pooling(body.config.hidden_size, pooling_mode="mean"))
        modules += [Normalize()] if head is None else [head, Normalize()]
        restored = SentenceTransformer(
            modules=modules,
            device="cpu",
            prompts=dict(manifest.prompts),
            default_prompt_name=manifest.default_prompt_name,
            truncate_dim=manifest.truncate_dim,
        )
        restored.save(str(stage), create_model_card=False)
        stage.rename(out)


def _body(weights: Weights, *, pad_id: int) -> BertModel:
    """A BERT body with these weights; the unused pooler of pre-training is zero."""
    state = weights.state
    words_VH = state["embeddings.word_embeddings.weight"]
    config = BertConfig(
        vocab_size=len(words_VH),
        hidden_size=words_VH.shape[1],
        num_hidden_layers=sum(name.endswith("intermediate.dense.weight") for name in state),
        num_attention_heads=weights.heads,
        intermediate_size=len(state["encoder.layer.0.intermediate.dense.weight"]),
        max_position_embeddings=len(state["embeddings.position_embeddings.weight"]),
        type_vocab_size=len(state["embeddings.token_type_embeddings.weight"]),
        layer_norm_eps=weights.epsilon,
        pad_token_id=pad_id,
    )
    body = BertModel(config)
    pooler = {name: np.zeros(value.shape, np.float32) for name, value in body.state_dict().items() if "pooler" in name}
    body.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in (state | pooler).items()})
    return body.eval()


def _head(weights: Weights) -> Dense | None:
    if weights.head is None:
        return None
    weight_DH, bias_D = (torch.from_numpy(np.array(value)) for value in weights.head)
    dense = Dense(weight_DH.shape[1], len(weight_DH), bias=True, activation_function=nn.Identity())
    dense.linear.load_state_dict({"weight": weight_DH, "bias": bias_D})
    return dense


def _tokenizer(path: Path, *, max_length: int) -> PreTrainedTokenizerFast:
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    vocabulary = tokenizer.get_vocab()
    found = {role: next((name for name in names if name in vocabulary), None) for role, names in SPECIAL_TOKENS.items()}
    if found["pad_token"] is None:
        raise BadRequest(f"{path.parent}: {path.name} has no padding token ({', '.join(SPECIAL_TOKENS['pad_token'])})")
    special = {role: name for role, name in found.items() if name is not None}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_length, **special)


@torch.no_grad()
def _lowest_cosine(body: BertModel, head: Dense | None, parity: ParityPack) -> float:
    cosines = []
    for ids, vector in zip(parity.input_ids, parity.embeddings, strict=True):
        embedding_1D = body(input_ids=torch.tensor([ids])).last_hidden_state.mean(dim=1)
        embedding_1D = embedding_1D if head is None else head.linear(embedding_1D)
        embedding_1D = embedding_1D[:, : len(vector)]  # truncate_dim
        cosines.append(torch.cosine_similarity(embedding_1D, torch.tensor([vector])).item())
    return min(cosines)


if __name__ == "__main__":
    sys.exit(main())
