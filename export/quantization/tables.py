"""Quantises embedding tables: int8 with a scale a row, and the largest optionally in 4 bits with a scale a block.

Shapes: V rows of a table, B its width, G blocks of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from export.errors import Refused
from export.quantization.blocks import DOMAIN, replace_content
from training.config.run import BLOCK_SIZE

TableBits = Literal[4, 8]
INT8_MAX = 127
LEVELS = 15  # steps between a block's minimum and maximum


def quantise_tables(model: onnx.ModelProto, *, word_bits: TableBits = 8) -> None:
    """Quantise every embedding table to int8 with one scale a row, and the largest to `word_bits` bits.

    Differs from ONNX Runtime's Gather, whose single scale would round a rare token's small row with the step of the
    largest row. Costs 4 bytes a row.

    Raises: Refused: 4 bits are requested, but the table's width is not a multiple of the block size.
    """
    tables = {tensor.name: tensor for tensor in model.graph.initializer if _is_table(tensor)}
    used = {node.input[0]: tables[node.input[0]] for node in model.graph.node if _gathers_rows(node, tables)}
    words = max(used, key=lambda name: int(np.prod(used[name].dims)), default=None) if word_bits == 4 else None
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if not _gathers_rows(node, tables):
            nodes.append(node)
        elif node.input[0] == words:
            nodes += _gather_blocks(node)
        else:
            nodes += _gather_rows(node)
    tensors = [tensor for tensor in model.graph.initializer if tensor.name not in used]
    for name, tensor in used.items():
        table_VB = numpy_helper.to_array(tensor)
        tensors += _block_tensors(name, table_VB) if name == words else _row_tensors(name, table_VB)
    replace_content(model, nodes, tensors)


def quantise_rows(table_VB: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Quantise to symmetric int8 with one scale a row: (V, B) -> (V, B) int8, (V, 1) float32."""
    largest_V1 = np.abs(table_VB).max(axis=1, keepdims=True)
    scale_V1 = np.where(largest_V1 > 0, largest_V1 / INT8_MAX, 1).astype(np.float32)  # a row of zeros stays zeros
    return np.rint(table_VB / scale_V1).astype(np.int8), scale_V1


class Blocks(NamedTuple):
    """A 4-bit table: value = (code - zero point) * scale, with a zero point and a scale for each block of a row."""

    code_VB: npt.NDArray[np.uint8]  # 0 to 15
    zero_point_VG: npt.NDArray[np.uint8]
    scale_VG: npt.NDArray[np.float16]


def quantise_table_blocks(table_VB: npt.NDArray[np.float32]) -> Blocks:
    """Quantise each block's range, including 0, in 15 steps; scales are rounded to float16 before codes are chosen.

    Raises: Refused: B is not a multiple of the block size.
    """
    rows, width = table_VB.shape
    if width % BLOCK_SIZE:
        raise Refused(f"--word-bits 4: the table's width {width} is not a multiple of {BLOCK_SIZE}: use --word-bits 8")
    block_VGS = table_VB.reshape(rows, width // BLOCK_SIZE, BLOCK_SIZE)
    low_VG1 = np.minimum(block_VGS.min(axis=2, keepdims=True), 0)
    high_VG1 = np.maximum(block_VGS.max(axis=2, keepdims=True), 0)
    scale_VG1 = ((high_VG1 - low_VG1) / LEVELS).astype(np.float16)
    step_VG1 = np.where(scale_VG1 > 0, scale_VG1, 1).astype(np.float32)  # a block of zeros stays zeros
    zero_VG1 = np.rint(-low_VG1 / step_VG1).clip(0, LEVELS)
    code_VGS = (np.rint(block_VGS / step_VG1) + zero_VG1).clip(0, LEVELS)
    return Blocks(code_VGS.reshape(rows, width).astype(np.uint8), zero_VG1[..., 0].astype(np.uint8), scale_VG1[..., 0])


def pack_pairs(code_VN: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Pack two 4-bit codes a byte, the first in the low half; pads with a zero: (V, N) -> (V, ceil(N / 2))."""
    even_VN = np.pad(code_VN, ((0, 0), (0, code_VN.shape[1] % 2)))
    return np.bitwise_or(even_VN[:, 0::2], np.left_shift(even_VN[:, 1::2], 4), dtype=np.uint8)


def restore_table(name: str, array: Mapping[str, npt.NDArray[np.generic]]) -> npt.NDArray[np.float32]:
    """The table `name`, dequantised from the tensors of `quantise_tables` if necessary: (V, B) float32."""
    if name in array:
        return array[name].astype(np.float32)
    if f"{name}_row_int8" in array:
        values_VB, scale_V1 = array[f"{name}_row_int8"], array[f"{name}_row_scale"]
        return values_VB.astype(np.float32) * scale_V1.astype(np.float32)
    scale_VG = array[f"{name}_block_scale"].astype(np.float32)
    zero_VG = unpack_pairs(array[f"{name}_block_zero_points"])[:, : scale_VG.shape[1]]
    code_VB = unpack_pairs(array[f"{name}_block_codes"])
    block_VGS = code_VB.reshape(*scale_VG.shape, BLOCK_SIZE).astype(np.float32)
    return ((block_VGS - zero_VG[..., None]) * scale_VG[..., None]).reshape(code_VB.shape)


def unpack_pairs(packed_VN: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """The inverse of `pack_pairs`: (V, N) -> (V, 2 N)."""
    packed = packed_VN.astype(np.uint8)
    return np.stack([packed & LEVELS, packed >> 4], axis=2).reshape(len(packed), -1)


def _row_tensors(name: str, table_VB: npt.NDArray[np.float32]) -> list[TensorProto]:
    values_VB, scale_V1 = quantise_rows(table_VB)
    return [
        numpy_helper.from_array(values_VB, f"{name}_row_int8"),
        numpy_helper.from_array(scale_V1, f"{name}_row_scale"),
    ]


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


def _block_tensors(name: str, table_VB: npt.NDArray[np.float32]) -> list[TensorProto]:
    blocks = quantise_table_blocks(table_VB)
    return [
        numpy_helper.from_array(pack_pairs(blocks.code_VB), f"{name}_block_codes"),
        numpy_helper.from_array(pack_pairs(blocks.zero_point_VG), f"{name}_block_zero_points"),
        numpy_helper.from_array(blocks.scale_VG, f"{name}_block_scale"),
    ]


def _gather_blocks(node: NodeProto) -> list[NodeProto]:
    table, indices = node.input
    (output,) = node.output
    halves = f"{output}_float16"
    inputs = [f"{table}_block_codes", indices, f"{table}_block_scale", f"{table}_block_zero_points"]
    return [
        helper.make_node(
            "GatherBlockQuantized",
            inputs,
            [halves],
            name=f"{node.name}_blocks",
            domain=DOMAIN,
            gather_axis=0,
            quantize_axis=1,
            block_size=BLOCK_SIZE,
            bits=4,
        ),
        helper.make_node("Cast", [halves], [output], name=f"{node.name}_float", to=TensorProto.FLOAT),
    ]


def _gathers_rows(node: NodeProto, tables: dict[str, TensorProto]) -> bool:
    return bool(node.op_type == "Gather" and node.input[0] in tables and _axis(node) == 0)


def _is_table(tensor: TensorProto) -> bool:
    return bool(tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2)


def _axis(node: NodeProto) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), 0)
