"""Quantises an fp32 graph to int8; the gate measures the result.

Shapes: L tokens of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.quant_utils import add_pre_process_metadata

from export.quantization.activations import observe, quantise_matrices
from export.quantization.blocks import quantise_contractions
from export.quantization.copies import copy_shared_weights
from export.quantization.tables import TableBits, quantise_tables


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
