"""Reads the weights back from an ONNX graph made by `export.graph`.

Shapes: K inputs of a matrix, N its outputs; V vocabulary, B width of the word table, H hidden.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, numpy_helper

from export.errors import BadRequest
from export.quantization.quantize import COPY
from export.quantization.tables import TableBits, restore_table

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float32]
READABLE = (
    "restore supports only mean-pooled bi-encoders of the BERT family, exported with padding skipped, "
    "in fp32 or in int8 with static steps"
)
PRODUCTS = [  # of a layer, in order; the first joins three matrices
    ["attention.self.query", "attention.self.key", "attention.self.value"],
    ["attention.output.dense"],
    ["intermediate.dense"],
    ["output.dense"],
]
MOVES = {"Add", "Gather", "Reshape", "Split"}  # nodes between a product and its parts
OTHER_ACTIVATIONS = {  # not a layer's GELU; FusedGemm is a head's Dense with its activation
    *("Celu", "Elu", "FastGelu", "FusedGemm", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "QuickGelu"),
    *("Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu"),
}
NORMS = ["output", "attention.output"]  # of even norms, of odd norms


@dataclass(frozen=True)
class Weights:
    """The weights of a graph.

    state: named as in `BertModel`, with recurrences unrolled into layers; the word table as it is stored, (V, B).
    projection_BH: maps words to the hidden size; None: B is H.
    heads: attention heads of each layer.  epsilon: of each LayerNorm.
    word_bits: as the word table is stored; None: fp32.  head: the layer after the pooling, or None.
    """

    state: dict[str, Floats]
    projection_BH: Floats | None
    heads: int
    epsilon: float
    word_bits: TableBits | None
    head: tuple[Floats, Floats] | None


def read_weights(model: onnx.ModelProto) -> Weights:
    """The parameters of a graph made by `export.graph`, in float32.

    Raises: BadRequest: it is int8 with dynamic steps, or has another body.
    """
    array = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if _is_product(node, array)]
    norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
    _check_readable(model, array, products=len(products), norms=len(norms))
    layers = products[len(products) % 4 :]  # after the bottleneck's projection
    state = _tables(array)
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
    return Weights(
        state,
        projection_BH=_weight(products[0], array) if len(products) % 4 else None,
        heads=_heads(layers[0], model, array),
        epsilon=next(attribute.f for attribute in norms[0].attribute if attribute.name == "epsilon"),
        word_bits=_word_bits(array),
        head=(array["tail.0.weight"], array["tail.0.bias"])
        if any(name.startswith("tail.") for name in array)
        else None,
    )


def _check_readable(model: onnx.ModelProto, array: Mapping[str, Array], *, products: int, norms: int) -> None:
    """Raises: BadRequest: the graph is of another kind."""
    operators = Counter(node.op_type for node in model.graph.node)
    gelus = sum(operators[name] for name in ("BiasGelu", "Gelu", "Erf"))
    faults = {
        "its int8 steps are dynamic": operators["DynamicQuantizeLinear"] or operators["MatMulNBits"],
        "it has a head of `crosslet align`; take the model it was made from": any(
            name.startswith("head.") for name in array
        ),
        "its body is not of the BERT family": operators["CumSum"] != 1 or products // 4 * 2 + 1 != norms,
        "its layers do not have four products each": products % 4 > 1,
        "its activations are not one GELU a layer": OTHER_ACTIVATIONS & operators.keys() or gelus != products // 4,
        "it has several layers after its pooling": sum(name.startswith("tail.") for name in array) > 2,
    }
    for fault, is_found in faults.items():
        if is_found:
            raise BadRequest(f"{fault}; {READABLE}")


def _is_product(node: NodeProto, array: Mapping[str, Array]) -> bool:
    return node.op_type == "MatMulIntegerToFloat" or (node.op_type == "MatMul" and node.input[1] in array)


def _tables(array: Mapping[str, Array]) -> dict[str, Floats]:
    state = {}
    stored = {re.sub(r"_(row_int8|block_codes)$", "", name) for name in array}
    for name in stored:
        if match := re.fullmatch(r"(?:body\.)+(embeddings\.\w+_embeddings)(?:\.table)?\.weight", name):
            state[f"{match[1]}.weight"] = restore_table(name, array)
    return state


def _word_bits(array: Mapping[str, Array]) -> TableBits | None:
    words = [name for name in array if "word_embeddings" in name]
    if any(name.endswith("_block_codes") for name in words):
        return 4
    return 8 if any(name.endswith("_row_int8") for name in words) else None


def _weight(product: NodeProto, array: Mapping[str, Array]) -> Floats:
    """The matrix of a product, (K, N)."""
    if product.op_type == "MatMul":
        return array[product.input[1]].astype(np.float32)
    codes = product.input[0].removesuffix("_codes")
    matrix = COPY.sub("", product.input[1]).removesuffix("_int8")
    code_KN, scale_N = array[f"{matrix}_int8"].astype(np.float32), array[f"{matrix}_scale"].astype(np.float32)
    smoothing_K = array[f"{codes}_smoothing"].astype(np.float32)  # the graph multiplies the input by it
    weight_KN: Floats = code_KN * scale_N * smoothing_K[:, None]
    return weight_KN


def _bias(product: NodeProto, model: onnx.ModelProto, array: Mapping[str, Array]) -> Floats:
    """The bias of a product: its own input, or added by the next node."""
    readers = [node for node in model.graph.node if product.output[0] in node.input]
    names = [*product.input[6:], *(name for node in readers for name in node.input)]
    return next(array[name].astype(np.float32) for name in names if name in array and array[name].ndim == 1)


def _heads(product: NodeProto, model: onnx.ModelProto, array: Mapping[str, Array]) -> int:
    """The number of heads, from the shape (B, L, heads, size) of a layer's queries, keys or values."""
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
