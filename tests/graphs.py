"""Small ONNX graphs, in the opset and file version of the service's."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str] | None
INPUTS: Mapping[str, Shape] = {"input_ids": ["B", "L"], "attention_mask": ["B", "L"]}


def model_of(
    nodes: Sequence[onnx.NodeProto],
    tensors: Mapping[str, np.ndarray],
    outputs: Mapping[str, Shape],
    inputs: Mapping[str, Shape] = INPUTS,
    *,
    input_type: int = TensorProto.INT64,
) -> onnx.ModelProto:
    """Make a model with float32 outputs."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, input_type, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    versions = {"": 17} | {node.domain: 1 for node in nodes if node.domain}
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
