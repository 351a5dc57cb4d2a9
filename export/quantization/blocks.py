"""Quantises weight matrices to int8 with one scale a block of inputs.

Shapes: K inputs, N outputs of a matrix, G blocks of S inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

DOMAIN = "com.microsoft"
BLOCK_INPUTS = 128  # S; 32 and 64 are no better
ACCURACY_LEVEL = 4  # quantises activations, too, by block of each token
INT8_MAX = 127
ZERO_POINT = 128  # the operator's default: values are stored unsigned


def quantise_contractions(model: onnx.ModelProto) -> None:
    """Quantise by block every MatMul with K > N: the second layer of each feed-forward block.

    Its input, after GELU, has outliers. MatMulInteger's single scale for it causes half to two thirds of the int8 loss.
    Shared weights stay shared.
    """
    matrices = {tensor.name: tensor for tensor in model.graph.initializer if _narrows(tensor)}
    used: dict[str, TensorProto] = {}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in matrices:
            used[node.input[1]] = matrices[node.input[1]]
            nodes.append(_block_node(node, matrices[node.input[1]]))
        else:
            nodes.append(node)
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in used]
    for name, tensor in used.items():
        values_NGS, scale_NG = quantise_blocks(numpy_helper.to_array(tensor))
        kept.append(numpy_helper.from_array(values_NGS, f"{name}_blocks"))
        kept.append(numpy_helper.from_array(scale_NG, f"{name}_block_scale"))
    replace_content(model, nodes, kept)


def replace_content(model: onnx.ModelProto, nodes: Sequence[NodeProto], tensors: Sequence[TensorProto]) -> None:
    """Give a graph these nodes and tensors; declare the domain of ONNX Runtime's own operators if one is used."""
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(tensors)
    if any(node.domain == DOMAIN for node in nodes) and all(opset.domain != DOMAIN for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


def quantise_blocks(weight_KN: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Quantise symmetrically with zero point 128: (K, N) -> (N, G, S) uint8, (N, G) float32; K is a multiple of S."""
    inputs, outputs = weight_KN.shape
    block_NGS = weight_KN.T.reshape(outputs, inputs // BLOCK_INPUTS, BLOCK_INPUTS)
    largest_NG1 = np.abs(block_NGS).max(axis=2, keepdims=True)
    scale_NG1 = np.where(largest_NG1 > 0, largest_NG1 / INT8_MAX, 1).astype(np.float32)
    return (np.rint(block_NGS / scale_NG1) + ZERO_POINT).astype(np.uint8), scale_NG1[..., 0]


def _block_node(node: NodeProto, matrix: TensorProto) -> NodeProto:
    inputs, outputs = matrix.dims
    return helper.make_node(
        "MatMulNBits",
        [node.input[0], f"{matrix.name}_blocks", f"{matrix.name}_block_scale"],
        list(node.output),
        name=f"{node.name}_blocks",
        domain=DOMAIN,
        K=inputs,
        N=outputs,
        bits=8,
        block_size=BLOCK_INPUTS,
        accuracy_level=ACCURACY_LEVEL,
    )


def _narrows(tensor: TensorProto) -> bool:
    if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) != 2:
        return False
    inputs, outputs = tensor.dims
    return bool(inputs > outputs and inputs % BLOCK_INPUTS == 0)
