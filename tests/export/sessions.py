"""Graphs of checkpoints, and sessions as the service opens them."""

from pathlib import Path

import onnxruntime
from sentence_transformers import SentenceTransformer

from export.graph import build_graph
from export.onnx import export_fp32
from service.model.session import keep_exact

CALIBRATION = [[101, *range(2000 + 7 * number, 2006 + 7 * number), 102] for number in range(40)]


def fp32_graph(checkpoint: Path, folder: Path) -> Path:
    eager = {"attn_implementation": "eager"}
    folder.mkdir(exist_ok=True)
    return export_fp32(build_graph(SentenceTransformer(str(checkpoint), device="cpu", model_kwargs=eager)), folder)


def session_of(graph: Path | bytes) -> onnxruntime.InferenceSession:
    """One that gives the same vectors on every processor, on one thread."""
    options = onnxruntime.SessionOptions()
    keep_exact(options)
    options.intra_op_num_threads = 1
    source = str(graph) if isinstance(graph, Path) else graph
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
