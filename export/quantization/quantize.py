"""fp32 graph -> int8 graph. Knows ONNX; knows nothing about quality, which the gates measure.

L tokens of a text
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

    With calibration texts the steps of the activations are fixed beforehand (`export.quantization.activations`).
    Without them they are found while the graph runs, per tensor, so that a vector is the same to the bit only for the
    same batch; and matrices that narrow are rounded by block.

    Args:   word_bits: of the word embeddings; 4 lets twice the vocabulary into the same bytes.
            calibration: token ids of texts like those to come, L each, specials included.
    Raises: Refused: 4 bits are asked for and the table's width is no multiple of the block.
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
    add_pre_process_metadata(model)  # ONNX Runtime wrote this graph: nothing is left to pre-process
    quantize_dynamic(
        model,
        scratch,
        op_types_to_quantize=["MatMul"],
        per_channel=True,  # per tensor costs 8 points of cosine
        weight_type=QuantType.QInt8,
        reduce_range=False,
        extra_options={"MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT},
    )
    return onnx.load(scratch)
