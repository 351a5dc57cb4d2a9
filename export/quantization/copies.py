"""Copies weight matrices shared by several products, so that each product has its own.

Shapes: K inputs of a matrix.
"""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

WEIGHT_INPUTS = {"MatMulInteger": (1, 3), "MatMulIntegerToFloat": (1, 5)}  # the matrix, its zero points
COPY = re.compile(r"_copy\d+$")


def copy_shared_weights(model: onnx.ModelProto) -> None:
    """If recurrences share an int8 matrix, let all but the first read a copy that ONNX Runtime makes at load time.

    The file stores the matrix once. Memory does not change, since each product packs its own copy anyway. Without
    copies, ONNX Runtime 1.31 rejects a graph whose shared weights it must replace (`service.model.session`).
    """
    tensors = {one.name: one for one in model.graph.initializer if one.data_type == TensorProto.INT8}
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
