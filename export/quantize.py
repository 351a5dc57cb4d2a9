"""fp32 graph -> int8 graph. Knows ONNX; knows nothing about quality, which the gates measure.

V rows of a table, B its width
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.quant_utils import add_pre_process_metadata

from export.blocks import quantise_contractions

INT8_MAX = 127


def quantise(source: Path, target: Path) -> None:
    """Write the int8 form of an optimised graph: tables by row, narrowing matrices by block, others by output channel.

    Activations are quantised per tensor while the graph runs, so a vector is the same to the bit only for the same
    batch: the service runs one text at a time.
    """
    model = onnx.load(source)
    quantise_tables(model)
    quantise_contractions(model)
    add_pre_process_metadata(model)  # ONNX Runtime wrote this graph: nothing is left to pre-process
    quantize_dynamic(
        model,
        target,
        op_types_to_quantize=["MatMul"],
        per_channel=True,  # per tensor costs 8 points of cosine
        weight_type=QuantType.QInt8,
        reduce_range=False,
        extra_options={"MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT},
    )


def quantise_tables(model: onnx.ModelProto) -> None:
    """Store every embedding table as int8 with one scale a row.

    Differs from ONNX Runtime's Gather, which has one scale for the whole table: a rare token's small row would be
    rounded with the step of the largest row. Costs 4 bytes a row.
    """
    tables = {tensor.name: tensor for tensor in model.graph.initializer if _is_table(tensor)}
    nodes: list[NodeProto] = []
    used: dict[str, TensorProto] = {}
    for node in model.graph.node:
        if node.op_type == "Gather" and node.input[0] in tables and _axis(node) == 0:
            used[node.input[0]] = tables[node.input[0]]
            nodes += _gather_rows(node)
        else:
            nodes.append(node)
    _replace(model.graph.node, nodes)
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in used]
    for name, tensor in used.items():
        values_VB, scale_V1 = quantise_rows(numpy_helper.to_array(tensor))
        kept += [
            numpy_helper.from_array(values_VB, f"{name}_row_int8"),
            numpy_helper.from_array(scale_V1, f"{name}_row_scale"),
        ]
    _replace(model.graph.initializer, kept)


def quantise_rows(table_VB: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Symmetric int8 with one scale a row: (V, B) -> (V, B) int8, (V, 1) float32."""
    largest_V1 = np.abs(table_VB).max(axis=1, keepdims=True)
    scale_V1 = np.where(largest_V1 > 0, largest_V1 / INT8_MAX, 1).astype(np.float32)  # a row of zeros stays zeros
    return np.rint(table_VB / scale_V1).astype(np.int8), scale_V1


def _gather_rows(node: NodeProto) -> list[NodeProto]:
    table, indices = node.input
    (output,) = node.output
    rows, floats, scale = f"{output}_row_int8", f"{output}_row", f"{output}_row_scale"
    return [
        helper.make_node("Gather", [f"{table}_row_int8", indices], [rows], name=f"{node.name}_int8"),
        helper.make_node("Cast", [rows], [floats], name=f"{node.name}_row", to=TensorProto.FLOAT),
        helper.make_node("Gather", [f"{table}_row_scale", indices], [scale], name=f"{node.name}_row_scale"),
        helper.make_node("Mul", [floats, scale], [output], name=f"{node.name}_dequantised"),
    ]


def _is_table(tensor: TensorProto) -> bool:
    return bool(tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2)


def _axis(node: NodeProto) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), 0)


def _replace(field, values) -> None:  # type: ignore[no-untyped-def]
    del field[:]
    field.extend(values)
