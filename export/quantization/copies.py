"""Gives each product a weight matrix of its own where several share one. Knows ONNX.

K inputs of a matrix
"""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

WEIGHT_INPUTS = {"MatMulInteger": (1, 3), "MatMulIntegerToFloat": (1, 5)}  # the matrix, its zero points
COPY = re.compile(r"_copy\d+$")


def copy_shared_weights(model: onnx.ModelProto) -> None:
    """Where recurrences share an int8 matrix, all but the first read a copy, which ONNX Runtime makes when it loads.

    The file has it once, and the memory, once loaded, as often as before: each product packs its own. But ONNX Runtime
    1.31 refuses a graph whose weights it has to replace (`service.model.exactness`) if two products share one.
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
    """Zero points are stored again; of a matrix all rows are taken, and each time some more that there are not.

    Steps that are alike ONNX Runtime would make one.
    """
    if len(tensor.dims) < 2:
        model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(tensor), name))
        return []
    start, end = f"{name}_start", f"{name}_end"
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), start))
    model.graph.initializer.append(numpy_helper.from_array(np.array([tensor.dims[0] + beyond]), end))
    return [helper.make_node("Slice", [tensor.name, start, end], [name], name=f"{name}_made")]
