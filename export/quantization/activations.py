"""Quantises weight matrices to int8, with static activation scales from calibration texts.

Unlike with dynamic scales, a row does not depend on the rest of its batch: texts that share a pass keep their vectors
to the bit. No maximum is computed at run time.

Shapes: T calibration texts, L tokens of a text, K inputs of a matrix, N its outputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import NodeProto, TensorProto, helper, numpy_helper

from export.quantization.blocks import DOMAIN, replace_content

SMOOTHING = 0.7  # alpha of SmoothQuant; 0.5 loses 0.6 points of STS, 0.8 and 0.9 gain nothing (docs/experiments)
OUTLIERS = 0.1  # percent of texts, at each end, whose extreme values are clipped
LEAST = 1e-4  # smallest magnitude of a channel, relative to the largest
INT8_MAX, UINT8_MAX = 127, 255

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """The observed range of a tensor: minimum and maximum of each channel in each text, (T, K) each."""

    low_TK: Floats
    high_TK: Floats

    def largest(self) -> Floats:
        """The largest magnitude of each channel, without outlier texts: (K,), all above 0."""
        magnitude_TK = np.maximum(-self.low_TK, self.high_TK)
        return _above_zero(np.percentile(magnitude_TK, 100 - OUTLIERS, axis=0))

    def step_and_zero(self, smoothing_K: Floats) -> tuple[np.float32, np.uint8]:
        """Scale and zero point that cover the smoothed tensor, without outlier texts."""
        low = min(0.0, np.percentile((self.low_TK / smoothing_K).min(axis=1), OUTLIERS))
        high = max(0.0, np.percentile((self.high_TK / smoothing_K).max(axis=1), 100 - OUTLIERS))
        step = np.float32((high - low) / UINT8_MAX or 1)
        return step, np.uint8(np.rint(-low / step))


def observe(model: onnx.ModelProto, token_ids: Iterable[Sequence[int]]) -> dict[str, Seen]:
    """Run calibration texts, one at a time, and record the input range of each weight matrix."""
    names = sorted({node.input[0] for node in _products(model)})
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    low: dict[str, list[Floats]] = defaultdict(list)
    high: dict[str, list[Floats]] = defaultdict(list)
    for ids in token_ids:
        ids_1L = np.array([ids], dtype=np.int64)
        values = session.run(names, {"input_ids": ids_1L, "attention_mask": np.ones_like(ids_1L)})
        for name, value in zip(names, values, strict=True):
            rows_LK = value.reshape(-1, value.shape[-1])
            low[name].append(rows_LK.min(axis=0))
            high[name].append(rows_LK.max(axis=0))
    return {name: Seen(np.stack(low[name]), np.stack(high[name])) for name in names}


def quantise_matrices(model: onnx.ModelProto, seen: Mapping[str, Seen]) -> None:
    """Quantise every product with a weight matrix: int8 weights by output channel, uint8 input with one static scale.

    First, large input channels are scaled down and the matrix's rows scaled up (SmoothQuant, Xiao et al. 2022, eq. 4).
    Otherwise one outlier channel would take up the whole range.
    """
    products = _products(model)
    if not products:
        return
    array = {name: numpy_helper.to_array(tensor) for name, tensor in _matrices(model).items()}
    before: dict[str, list[NodeProto]] = {}  # input -> the nodes that quantise it
    tensors: list[TensorProto] = []
    for inputs, matrices in _groups(products):
        smoothing_K = _smoothing([seen[name] for name in inputs], [array[name] for name in matrices])
        for name in inputs:
            step, zero = seen[name].step_and_zero(smoothing_K)
            before[name] = _codes(name)
            tensors += [
                numpy_helper.from_array(1 / smoothing_K, f"{name}_smoothing"),
                numpy_helper.from_array(np.asarray(step), f"{name}_step"),
                numpy_helper.from_array(np.asarray(zero), f"{name}_zero"),
            ]
        for name in matrices:
            code_KN, scale_N = quantise_columns(array[name] * smoothing_K[:, None])
            tensors += [
                numpy_helper.from_array(code_KN, f"{name}_int8"),
                numpy_helper.from_array(scale_N, f"{name}_scale"),
                numpy_helper.from_array(np.zeros(len(scale_N), np.int8), f"{name}_zeros"),
            ]
    bias_of = _biases(model, products)
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if node in products:
            nodes += before.pop(node.input[0], [])
            nodes.append(_product(node, bias_of.get(node.output[0])))
        elif node not in bias_of.values():
            nodes.append(node)
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in array]
    replace_content(model, nodes, [*kept, *tensors])


def quantise_columns(weight_KN: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Symmetric int8 with one scale an output channel: (K, N) -> (K, N) int8, (N,) float32."""
    largest_N = np.abs(weight_KN).max(axis=0)
    scale_N = np.where(largest_N > 0, largest_N / INT8_MAX, 1).astype(np.float32)
    return np.rint(weight_KN / scale_N).astype(np.int8), scale_N


def _smoothing(inputs: Sequence[Seen], weights_KN: Sequence[Floats]) -> Floats:
    """The divisor of each channel; their geometric mean is 1."""
    activation_K = np.max([seen.largest() for seen in inputs], axis=0)
    weight_K = _above_zero(np.max([np.abs(weight_KN).max(axis=1) for weight_KN in weights_KN], axis=0))
    smoothing_K = activation_K**SMOOTHING / weight_K ** (1 - SMOOTHING)
    smooth: Floats = (smoothing_K / np.exp(np.log(smoothing_K).mean())).astype(np.float32)
    return smooth


def _above_zero(magnitude_K: npt.NDArray[np.floating]) -> Floats:
    """Clamp tiny channels, so that smoothing does not amplify them to the size of the others."""
    floor = max(LEAST * float(magnitude_K.max()), float(np.finfo(np.float32).tiny))
    raised: Floats = np.maximum(magnitude_K, floor).astype(np.float32)
    return raised


def _groups(products: Iterable[NodeProto]) -> list[tuple[list[str], list[str]]]:
    """Group inputs and matrices that need the same smoothing, because products connect them.

    Recurrences share the unit's matrices; queries, keys and values share their input.
    """
    groups: list[tuple[list[str], list[str]]] = []
    for node in products:
        inputs, matrices = [node.input[0]], [node.input[1]]
        for group in [known for known in groups if node.input[0] in known[0] or node.input[1] in known[1]]:
            groups.remove(group)
            inputs, matrices = group[0] + inputs, group[1] + matrices
        groups.append((list(dict.fromkeys(inputs)), list(dict.fromkeys(matrices))))
    return groups


def _biases(model: onnx.ModelProto, products: Sequence[NodeProto]) -> dict[str, NodeProto]:
    """The bias addition of each product whose only consumer it is."""
    width = {tensor.name: tensor.dims[-1] for tensor in model.graph.initializer if tensor.dims}
    vectors = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 1}
    results = {result.name for result in model.graph.output}
    readers: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return {
        product.output[0]: reader
        for product in products
        for reader in readers.get(product.output[0], [])
        if reader.op_type == "Add"
        and len(readers[product.output[0]]) == 1
        and product.output[0] not in results
        and any(name in vectors and width[name] == width[product.input[1]] for name in reader.input)
    }


def _codes(name: str) -> list[NodeProto]:
    inputs, codes = [f"{name}_smooth", f"{name}_step", f"{name}_zero"], f"{name}_codes"
    return [
        helper.make_node("Mul", [name, f"{name}_smoothing"], [f"{name}_smooth"], name=f"{name}_smoothed"),
        helper.make_node("QuantizeLinear", inputs, [codes], name=f"{name}_coded"),
    ]


def _product(node: NodeProto, bias: NodeProto | None) -> NodeProto:
    activation, matrix = node.input
    inputs = [f"{activation}_codes", f"{matrix}_int8", f"{activation}_step", f"{matrix}_scale"]
    inputs += [f"{activation}_zero", f"{matrix}_zeros"]
    output = node.output[0]
    if bias is not None:
        inputs += [name for name in bias.input if name != output]
        output = bias.output[0]
    return helper.make_node("MatMulIntegerToFloat", inputs, [output], name=f"{output}_product", domain=DOMAIN)


def _products(model: onnx.ModelProto) -> list[NodeProto]:
    matrices = _matrices(model)
    return [node for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in matrices]


def _matrices(model: onnx.ModelProto) -> dict[str, TensorProto]:
    """Weights that only products read, so that they can be replaced."""
    readers: dict[str, set[str]] = {}
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            readers.setdefault(name, set()).add(f"{node.op_type} {position}")
    return {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2 and readers.get(tensor.name) == {"MatMul 1"}
    }
