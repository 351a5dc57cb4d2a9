"""`python -m export.restore ARTIFACT --out DIR`: an artifact's weights as an ordinary sentence-transformers folder.

For going on with the training of a model of which only the artifact was kept (`base` of a configuration), and for using
it where sentence-transformers runs. What int8 rounded stays rounded; recurrences are written out as layers.

V vocabulary, B bottleneck, H hidden, D dims of the sentence embedding, K inputs of a matrix, N its outputs
"""

from __future__ import annotations

import argparse
import re
import sys
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
from service.artifact import MODEL_FILE, TOKENIZER_FILE, ParityPack, load_manifest, load_parity, verify_files
from service.errors import ArtifactError

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float32]
LAYER = re.compile(r"encoder\.layer\.(\d+)\.")
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

    parameters: by the names that they had in torch, without what wraps the body.
    recurrences: how often the layers are applied.  heads: of each layer's attention.
    """

    parameters: Mapping[str, Floats]
    recurrences: int
    heads: int
    epsilon: float  # of each LayerNorm


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
    verify_files(artifact, manifest)
    weights = read_weights(onnx.load(artifact / MODEL_FILE))
    tokenizer = _tokenizer(artifact / TOKENIZER_FILE, max_length=manifest.max_length)
    body = _body(weights, pad_id=int(tokenizer.pad_token_id or 0))
    parity = load_parity(artifact, manifest)
    with torch.no_grad():
        lowest = _lowest_cosine(body, _head(weights), parity)
    say(f"lowest cosine to the artifact's vectors {lowest:.4f} over {len(parity.texts)} texts")
    if lowest < parity.min_cosine:
        raise Refused(
            f"{artifact}: a restored vector has cosine {lowest:.4f}, at least {parity.min_cosine} is asked for"
        )
    body.save_pretrained(out)
    tokenizer.save_pretrained(out)
    modules: list[nn.Module] = [Transformer(str(out), max_seq_length=manifest.max_length)]
    modules.append(Pooling(body.config.hidden_size, pooling_mode="mean"))
    if (head := _head(weights)) is not None:
        modules.append(_dense(head))
    SentenceTransformer(modules=[*modules, Normalize()], device="cpu").save(str(out), create_model_card=False)


def read_weights(model: onnx.ModelProto) -> Weights:
    """The parameters of a graph that `export` wrote, in float32.

    Raises: BadRequest: int8 with steps found in each pass, or a body that is not BERT's.
    """
    if any(node.op_type in {"MatMulInteger", "DynamicQuantizeMatMul", "MatMulNBits"} for node in model.graph.node):
        raise BadRequest("its int8 has steps that are found in each pass; only fixed steps and fp32 can be restored")
    array = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    parameters = {
        name: np.asarray(value, dtype=np.float32)
        for name, value in array.items()
        if value.dtype == np.float32 and re.fullmatch(r"(body|tail)\..*\.(weight|bias)", name)
    }
    tables = {name.rpartition("_row_int8")[0] or name.rpartition("_block_codes")[0] for name in array} - {""}
    parameters |= {name: restore_table(name, array) for name in tables}
    for node in model.graph.node:
        for name, value in _parameters(node, array).items():
            parameters.setdefault(name, value)
    plain = {re.sub(r"^(body\.)+", "", name): value for name, value in parameters.items()}
    layers = {match[1] for name in plain if (match := LAYER.match(name))}
    passes = sum(node.op_type == "Softmax" for node in model.graph.node)
    if not layers or any(node.op_type == "CumSum" for node in model.graph.node):
        raise BadRequest("its body is not of the BERT family (BERT, MiniLM); restore what it was exported from")
    norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
    epsilon = next(attribute.f for attribute in norms[0].attribute if attribute.name == "epsilon")
    return Weights(plain, recurrences=passes // len(layers), heads=_heads(model, array), epsilon=epsilon)


def _parameters(node: NodeProto, array: Mapping[str, Array]) -> dict[str, Floats]:
    """What a node reads, by the name of its module in torch: tensors that are equal lost their own names."""
    module = _module(node.input[0] if node.op_type == "BiasGelu" else node.output[0])
    vectors = [array[name].astype(np.float32) for name in node.input if name in array and array[name].ndim == 1]
    if node.op_type == "LayerNormalization":
        return {f"{module}.weight": vectors[0], f"{module}.bias": vectors[1]}
    if node.op_type in {"Add", "BiasGelu"} and vectors:
        return {f"{module}.bias": vectors[0]}
    if node.op_type == "MatMul" and node.input[1] in array:
        return {f"{module}.weight": array[node.input[1]].astype(np.float32).T}
    if node.op_type != "MatMulIntegerToFloat":
        return {}
    codes, matrix = node.input[0].removesuffix("_codes"), node.input[1].removesuffix("_int8")
    code_KN, scale_N = array[f"{matrix}_int8"].astype(np.float32), array[f"{matrix}_scale"].astype(np.float32)
    smoothing_K = array[f"{codes}_smoothing"].astype(np.float32)  # the input is multiplied by it
    weight_KN = code_KN * scale_N * smoothing_K[:, None]
    bias = {f"{module}.bias": array[name].astype(np.float32) for name in node.input[6:]}
    return {f"{module}.weight": weight_KN.T, **bias}


def _module(tensor: str) -> str:
    """`body.encoder.layer.0.output.dense` of `/body/encoder/layer.0/output/dense_1/MatMul_output_0`, a recurrence's."""
    path = tensor.strip("/").rpartition("/")[0].replace("/", ".")
    return re.sub(r"_\d+$", "", path)


def _heads(model: onnx.ModelProto, array: Mapping[str, Array]) -> int:
    """From the shape (B, L, heads, H / heads) that queries are given."""
    maker = {node.output[0]: node for node in model.graph.node}
    for node in model.graph.node:
        shape = maker.get(node.input[1]) if node.op_type == "Reshape" else None
        if "/query/" in node.input[0] and shape is not None and shape.op_type == "Concat":
            return int(array[shape.input[2]].item())
    raise BadRequest("its graph does not say how many heads its attention has")


def _body(weights: Weights, *, pad_id: int) -> BertModel:
    """Every layer in its place; the pooler of BERT's pre-training, which nothing reads, is zeros."""
    table = weights.parameters
    words_VH = table.get("embeddings.word_embeddings.weight")
    if words_VH is None:
        projection_HB = table["embeddings.word_embeddings.projection.weight"]
        words_VH = table["embeddings.word_embeddings.table.weight"] @ projection_HB.T
    state = {"embeddings.word_embeddings.weight": words_VH}
    state |= {name: value for name, value in table.items() if re.match(r"embeddings\.(?!word_)", name)}
    unit = {name: value for name, value in table.items() if LAYER.match(name)}
    depth = 1 + max(int(LAYER.match(name)[1]) for name in unit)  # type: ignore[index]  # all match
    for recurrence in range(weights.recurrences):
        for name, value in unit.items():
            layer = int(LAYER.match(name)[1]) + recurrence * depth  # type: ignore[index]
            state[LAYER.sub(f"encoder.layer.{layer}.", name)] = value
    config = BertConfig(
        vocab_size=len(words_VH),
        hidden_size=words_VH.shape[1],
        num_hidden_layers=depth * weights.recurrences,
        num_attention_heads=weights.heads,
        intermediate_size=len(table["encoder.layer.0.intermediate.dense.weight"]),
        max_position_embeddings=len(table["embeddings.position_embeddings.weight"]),
        type_vocab_size=len(table["embeddings.token_type_embeddings.weight"]),
        layer_norm_eps=weights.epsilon,
        pad_token_id=pad_id,
    )
    body = BertModel(config)
    state |= {name: np.zeros(value.shape, np.float32) for name, value in body.state_dict().items() if "pooler" in name}
    body.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})
    return body.eval()


def _head(weights: Weights) -> nn.Linear | None:
    weight_DH, bias_D = (weights.parameters.get(f"tail.0.{name}") for name in ("weight", "bias"))
    if weight_DH is None or bias_D is None:
        return None
    head = nn.Linear(weight_DH.shape[1], len(weight_DH))
    head.load_state_dict({"weight": torch.from_numpy(np.array(weight_DH)), "bias": torch.from_numpy(np.array(bias_D))})
    return head


def _dense(head: nn.Linear) -> Dense:
    dense = Dense(head.in_features, head.out_features, bias=True, activation_function=nn.Identity())
    dense.linear.load_state_dict(head.state_dict())
    return dense


def _tokenizer(path: Path, *, max_length: int) -> PreTrainedTokenizerFast:
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    vocabulary = tokenizer.get_vocab()
    special = {role: token for role, tokens in SPECIAL_TOKENS.items() for token in tokens if token in vocabulary}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_length, **special)


def _lowest_cosine(body: BertModel, head: nn.Linear | None, parity: ParityPack) -> float:
    cosines = []
    for ids, vector in zip(parity.input_ids, parity.embeddings, strict=True):
        embedding_1D = body(input_ids=torch.tensor([ids])).last_hidden_state.mean(dim=1)
        embedding_1D = embedding_1D if head is None else head(embedding_1D)
        cosines.append(torch.cosine_similarity(embedding_1D, torch.tensor([vector])).item())
    return min(cosines)


if __name__ == "__main__":
    sys.exit(main())
