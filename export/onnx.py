"""Torch module -> ONNX file, and ONNX Runtime's own optimised form of it. Knows nothing about precision or quality.

The order of steps is what keeps the weights of the recurrent unit stored once: eager attention, the TorchScript
exporter, opset 17, then the graph that ONNX Runtime writes at its EXTENDED level, which folds the transposes that each
recurrence would otherwise keep for itself. EXTENDED rewrites the graph without regard to the CPU it runs on.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar

import onnx
import onnxruntime
from optimum.exporters.onnx.config import TextEncoderOnnxConfig
from optimum.exporters.onnx.convert import export as optimum_export
from optimum.utils import NormalizedTextConfig
from torch.jit import TracerWarning  # type: ignore[attr-defined]  # public, but not in its __all__

from export.errors import Refused
from export.graph import SentenceGraph

OPSET = 17
BYTES_PER_PARAMETER = {"fp32": 4 * 1.05, "int8": 1.15}  # with the scales of int8 and whatever stays in float
OVERHEAD_BYTES = 512 * 1024  # nodes, names and constants


class SentenceGraphConfig(TextEncoderOnnxConfig):  # type: ignore[misc]
    """Names and dynamic axes of the artifact's graph, as optimum asks for them."""

    NORMALIZED_CONFIG_CLASS: ClassVar[Any] = NormalizedTextConfig

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """(B, L) each."""
        axes = {0: "batch_size", 1: "sequence_length"}
        return {"input_ids": axes, "attention_mask": axes}

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """(B, D)."""
        return {"sentence_embedding": {0: "batch_size"}}


def export_fp32(graph: SentenceGraph, scratch: Path) -> Path:
    """Trace the module and optimise the result; returns the path of the optimised file in `scratch`."""
    traced, optimised = scratch / "traced.onnx", scratch / "fp32.onnx"
    with warnings.catch_warnings():
        # That the TorchScript exporter is deprecated is known: see the top.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"(torch|optimum)\b.*")
        # Tracing warns of every Python branch on a shape; the fidelity gate compares other lengths with torch.
        warnings.filterwarnings("ignore", category=TracerWarning)
        optimum_export(graph, SentenceGraphConfig(graph.config), traced, opset=OPSET)
    _optimise(traced, optimised)
    return optimised


def _optimise(source: Path, target: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    model = onnx.load(target)
    used = {node.domain for node in model.graph.node}
    kept = [opset for opset in model.opset_import if opset.domain in used]
    del model.opset_import[:]  # it imports every domain it knows, and other versions may not know them all
    model.opset_import.extend(kept)
    onnx.save(model, target)


def check_size(path: Path, *, parameters: int, precision: str) -> None:
    """Shared weights must be stored once: the file is about as large as its parameters.

    Raises: Refused: it is larger.
    """
    size_bytes = path.stat().st_size
    limit_bytes = round(parameters * BYTES_PER_PARAMETER[precision]) + OVERHEAD_BYTES
    if size_bytes > limit_bytes:
        raise Refused(
            f"the {precision} graph has {size_bytes:,} bytes for {parameters:,} parameters, at most {limit_bytes:,} "
            "are expected: weights are stored more than once or were not quantised"
        )
