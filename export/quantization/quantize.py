"""Quantises an fp32 graph to int8; the gate measures the result.

Shapes: L tokens of a text, K inputs of a matrix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.quant_utils import add_pre_process_metadata

from export.quantization.activations import observe, quantise_matrices
from export.quantization.blocks import quantise_contractions
from export.quantization.tables import TableBits, quantise_tables

WEIGHT_INPUTS = {"MatMulInteger": (1, 3), "MatMulIntegerToFloat": (1, 5)}  # the matrix, its zero points
COPY = re.compile(r"_copy\d+$")


def quantise(
    source: Path, target: Path, *, word_bits: TableBits = 8, calibration: Sequence[Sequence[int]] = ()
) -> None:
    """Write the int8 form of an optimised graph: tables by row, matrices by output channel.

    With calibration texts, activation scales are static (`export.quantization.activations`). Without, they are dynamic,
    per tensor, so vectors depend on their batch; and matrices with more inputs than outputs are quantised by block.

    Args:   word_bits: bits of the word embeddings; 4 fits twice the vocabulary into the same size.
            calibration: token ids of representative texts, L each, including special tokens.
    Raises: Refused: 4 bits are requested, but the table's width is not a multiple of the block size.
    """
    model = onnx.load(source)
    quantise_tables(model, word_bits=word_bits)
    if calibration:
        quantise_matrices(model, observe(model, calibration))
    else:
        model = _with_steps_of_each_pass(model, target)
    copy_shared_weights(model)
    onnx.save(model, target)


def _with_steps_of_each_pass(model: onnx.ModelProto, scratch: Path) -> onnx.ModelProto:
    quantise_contractions(model)
    add_pre_process_metadata(model)  # already optimised by ONNX Runtime
    quantize_dynamic(
        model,
        scratch,
        op_types_to_quantize=["MatMul"],
        per_channel=True,  # per tensor would cost 8 points of cosine
        weight_type=QuantType.QInt8,
        reduce_range=False,
        extra_options={"MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT},
    )
    return onnx.load(scratch)


def copy_shared_weights(model: onnx.ModelProto) -> None:
    """If recurrences share an int8 matrix, let all but the first read a copy that ONNX Runtime makes at load time.

    The file stores the matrix once. Memory does not change, since each product packs its own copy anyway. Without
    copies, ONNX Runtime 1.31 rejects a graph whose shared weights it must replace (`service.model.session`).
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.INT8}
    uses = dict.fromkeys(tensors, 0)
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        for position in WEIGHT_INPUTS.get(node.op_type, ()):
            name = node.input[position]
            if name not in tensors:
                continue
            uses[name] += 1
            if uses[name] > 1:
                node.input[position] = f"{name}_copy{uses[name]}"
                nodes += _copy(model, tensors[name], node.input[position], beyond=uses[name])
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _copy(model: onnx.ModelProto, tensor: TensorProto, name: str, *, beyond: int) -> list[NodeProto]:
    """Nodes that copy a tensor: zero points are stored again; a matrix is sliced past its last row.

    Each copy's slice has another end, since ONNX Runtime would merge identical nodes.
    """
    if len(tensor.dims) < 2:
        model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(tensor), name))
        return []
    start, end = f"{name}_start", f"{name}_end"
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), start))
    model.graph.initializer.append(numpy_helper.from_array(np.array([tensor.dims[0] + beyond]), end))
    return [helper.make_node("Slice", [tensor.name, start, end], [name], name=f"{name}_made")]
