"""`python -m export.restore ARTIFACT --out DIR`: an artifact's weights as an ordinary sentence-transformers folder.

For going on with the training of a model of which only the artifact was kept (`base` of a configuration), and for using
it where sentence-transformers runs. What int8 rounded stays rounded; recurrences are written out as layers.

V vocabulary, B bottleneck, H hidden, D dims of the sentence embedding, K inputs of a matrix, N its outputs
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import tokenizers  # type: ignore[import-untyped]
import torch
from onnx import NodeProto, numpy_helper
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from export.__main__ import FAILED, STOPPED, say
from export.errors import BadRequest, ExportError, Refused
from export.tables import restore_table
from service.artifact import (
    MODEL_FILE,
    TOKENIZER_FILE,
    ArtifactError,
    ParityPack,
    load_manifest,
    load_parity,
    verify_files,
)

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float32]
READABLE = (
    "what can be restored is a mean-pooled bi-encoder with a body of the BERT family, exported with padding skipped, "
    "in fp32 or in int8 with fixed steps"
)
PRODUCTS = [  # of a layer, in order; the first is of three matrices
    ["attention.self.query", "attention.self.key", "attention.self.value"],
    ["attention.output.dense"],
    ["intermediate.dense"],
    ["output.dense"],
]
MOVES = {"Add", "Gather", "Reshape", "Split"}  # what lies between a product and its parts
NORMS = ["output", "attention.output"]  # by whether a norm's number is odd
SPECIAL_TOKENS = {  # as BERT and as SentencePiece's users write them
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True)
class Weights:
    """What a graph holds.

    state: by the names that `BertModel` has; recurrences written out as layers.
    heads: of each layer's attention.  epsilon: of each LayerNorm.  head: after the pooling, or None.
    """

    state: dict[str, Floats]
    heads: int
    epsilon: float
    head: tuple[Floats, Floats] | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0, 2 with the reason on stderr, or 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m export.restore", description="Turn an artifact back into a sentence-transformers folder."
    )
    parser.add_argument("artifact", type=Path, help="artifact folder, e.g. models/default")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; it must not exist")
    options = parser.parse_args(arguments)
    try:
        restore(options.artifact, options.out)
    except (ExportError, ArtifactError, OSError) as exc:
        say(str(exc))
        return FAILED
    except KeyboardInterrupt:
        say("stopped")
        return STOPPED
    return 0


def restore(artifact: Path, out: Path) -> None:
    """Write `out`, once its vectors of the parity pack's texts are as near to the artifact's as the pack asks for.

    Raises: ArtifactError: the artifact is not whole.
            BadRequest: `out` exists, or the artifact is none that this can read.
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
            f"{artifact}: a restored vector has cosine {lowest:.4f}, at least {parity.min_cosine} is asked for"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        stage = Path(scratch) / "new"
        body.save_pretrained(stage)
        tokenizer.save_pretrained(stage)
        modules: list[nn.Module] = [Transformer(str(stage), max_seq_length=manifest.max_length)]
        modules.append(Pooling(body.config.hidden_size, pooling_mode="mean"))
        modules += [Normalize()] if head is None else [head, Normalize()]
        SentenceTransformer(modules=modules, device="cpu").save(str(stage), create_model_card=False)
        stage.rename(out)


def read_weights(model: onnx.ModelProto) -> Weights:
    """The parameters of a graph that `export.unpadded` drew, in float32.

    Raises: BadRequest: int8 with steps found in each pass, or another body.
    """
    array = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    operators = Counter(node.op_type for node in model.graph.node)
    if operators["DynamicQuantizeLinear"] or operators["MatMulNBits"]:
        raise BadRequest(f"its int8 has steps that are found in each pass; {READABLE}")
    products = [node for node in model.graph.node if _is_product(node, array)]
    norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
    if operators["CumSum"] != 1 or len(products) // 4 * 2 + 1 != len(norms):
        raise BadRequest(f"its body is none of the BERT family; {READABLE}")
    if len(products) % 4 > 1:
        raise BadRequest(f"its layers are not of four products each; {READABLE}")
    layers = products[len(products) % 4 :]  # before them the bottleneck's projection
    state = _tables(array, projection=next(iter(products[: -len(layers)]), None))
    for number, node in enumerate(layers):
        prefix, part = f"encoder.layer.{number // 4}", PRODUCTS[number % 4]
        weight_NK, bias_N = _weight(node, array).T, _bias(node, model, array)
        for share, name in enumerate(part):
            size = len(weight_NK) // len(part)
            rows = slice(share * size, (share + 1) * size)
            state |= {f"{prefix}.{name}.weight": weight_NK[rows], f"{prefix}.{name}.bias": bias_N[rows]}
    for number, node in enumerate(norms):
        name = f"encoder.layer.{(number - 1) // 2}.{NORMS[number % 2]}" if number else "embeddings"
        state |= {
            f"{name}.LayerNorm.{part}": array[key] for part, key in zip(("weight", "bias"), node.input[1:], strict=True)
        }
    tail = [name for name in array if name.startswith("tail.")]
    head = (array["tail.0.weight"], array["tail.0.bias"]) if tail else None
    if len(tail) > 2:
        raise BadRequest(f"it has several layers after its pooling; {READABLE}")
    epsilon = next(attribute.f for attribute in norms[0].attribute if attribute.name == "epsilon")
    return Weights(state, heads=_heads(layers[0], model, array), epsilon=epsilon, head=head)


def _is_product(node: NodeProto, array: Mapping[str, Array]) -> bool:
    return node.op_type == "MatMulIntegerToFloat" or (node.op_type == "MatMul" and node.input[1] in array)


def _tables(array: Mapping[str, Array], projection: NodeProto | None) -> dict[str, Floats]:
    """The embedding tables, the words' at full width."""
    state = {}
    stored = {re.sub(r"_(row_int8|block_codes)$", "", name) for name in array}
    for name in stored:
        if match := re.fullmatch(r"(?:body\.)+(embeddings\.\w+_embeddings)(?:\.table)?\.weight", name):
            state[f"{match[1]}.weight"] = restore_table(name, array)
    if projection is not None:
        words = "embeddings.word_embeddings.weight"
        state[words] = state[words] @ _weight(projection, array)
    return state


def _weight(product: NodeProto, array: Mapping[str, Array]) -> Floats:
    """The matrix of a product, (K, N)."""
    if product.op_type == "MatMul":
        return array[product.input[1]].astype(np.float32)
    codes, matrix = product.input[0].removesuffix("_codes"), product.input[1].removesuffix("_int8")
    code_KN, scale_N = array[f"{matrix}_int8"].astype(np.float32), array[f"{matrix}_scale"].astype(np.float32)
    smoothing_K = array[f"{codes}_smoothing"].astype(np.float32)  # the input is multiplied by it
    weight_KN: Floats = code_KN * scale_N * smoothing_K[:, None]
    return weight_KN


def _bias(product: NodeProto, model: onnx.ModelProto, array: Mapping[str, Array]) -> Floats:
    """What is added to a product: in it, or by the node that reads it."""
    readers = [node for node in model.graph.node if product.output[0] in node.input]
    names = [*product.input[6:], *(name for node in readers for name in node.input)]
    return next(array[name].astype(np.float32) for name in names if name in array and array[name].ndim == 1)


def _heads(product: NodeProto, model: onnx.ModelProto, array: Mapping[str, Array]) -> int:
    """From the shape (B, L, heads, size) that a layer's queries, keys or values are given."""
    maker = {output: node for node in model.graph.node for output in node.output}

    def is_after_product(node: NodeProto | None) -> bool:
        while node is not None and node.op_type in MOVES:
            node = next((maker[name] for name in node.input if name in maker), None)
        return node is product

    shapes = (
        array[node.input[1]]
        for node in model.graph.node
        if node.op_type == "Reshape" and node.input[1] in array and is_after_product(node)
    )
    return int(next(shape for shape in shapes if len(shape) == 4)[2])


def _body(weights: Weights, *, pad_id: int) -> BertModel:
    """Every layer in its place; the pooler of BERT's pre-training, which nothing reads, is zeros."""
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
        cosines.append(torch.cosine_similarity(embedding_1D, torch.tensor([vector])).item())
    return min(cosines)


if __name__ == "__main__":
    sys.exit(main())
