"""Exports a torch module to ONNX, then optimises the graph with ONNX Runtime.

These steps store the recurrent unit's weights only once: eager attention, the TorchScript exporter at opset 17, then
ONNX Runtime's EXTENDED optimisation. EXTENDED folds the transposes that each recurrence would otherwise store, and does
not depend on the CPU.
"""

from __future__ import annotations

import errno
import os
import shutil
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
from export.graph import PairGraph, SentenceGraph

OPSET = 17
BYTES_PER_PARAMETER = {"fp32": 4 * 1.05, "int8": 1.15}  # including scales, and parts that stay in float
OVERHEAD_BYTES = 512 * 1024  # nodes, names and constants


class SentenceGraphConfig(TextEncoderOnnxConfig):  # type: ignore[misc]
    """Names and dynamic axes of the artifact's graph, for optimum."""

    NORMALIZED_CONFIG_CLASS: ClassVar[Any] = NormalizedTextConfig
    OUTPUT: ClassVar[str] = "sentence_embedding"

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """(B, L) each."""
        axes = {0: "batch_size", 1: "sequence_length"}
        return {"input_ids": axes, "attention_mask": axes}

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """(B, D), of a re-ranker (B, 1)."""
        return {self.OUTPUT: {0: "batch_size"}}


class PairGraphConfig(SentenceGraphConfig):
    """The same of a re-ranker's."""

    OUTPUT = "score"


def export_fp32(graph: SentenceGraph | PairGraph, scratch: Path) -> Path:
    """Trace the module and optimise the result; returns the path of the optimised file in `scratch`."""
    traced, optimised = scratch / "traced.onnx", scratch / "fp32.onnx"
    with warnings.catch_warnings():
        # The TorchScript exporter is deprecated but intended: see the module's docstring
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"(torch|optimum)\b.*")
        # Tracing warns of every Python branch on a shape; the gate compares other lengths with torch
        warnings.filterwarnings("ignore", category=TracerWarning)
        config = SentenceGraphConfig if isinstance(graph, SentenceGraph) else PairGraphConfig
        optimum_export(graph, config(graph.config), traced, opset=OPSET)
    _optimise(traced, optimised)
    return optimised


def _optimise(source: Path, target: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    try:
        onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # its errors have no common base, and say nothing of the disk
        if shutil.disk_usage(target.parent).free < source.stat().st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from exc
        raise
    model = onnx.load(target)
    used = {node.domain for node in model.graph.node}
    kept = [opset for opset in model.opset_import if opset.domain in used]
    del model.opset_import[:]  # drop unused domains: other versions may not support them
    model.opset_import.extend(kept)
    onnx.save(model, target)


def check_size(path: Path, *, parameters: int, precision: str) -> None:
    """Check that the file is about as large as its parameters, i.e. that shared weights are stored once.

    Raises: Refused: it is larger.
    """
    size_bytes = path.stat().st_size
    limit_bytes = round(parameters * BYTES_PER_PARAMETER[precision]) + OVERHEAD_BYTES
    if size_bytes > limit_bytes:
        raise Refused(
            f"the {precision} graph has {size_bytes:,} bytes for {parameters:,} parameters; the limit is "
            f"{limit_bytes:,}: weights are stored more than once or were not quantised"
        )
