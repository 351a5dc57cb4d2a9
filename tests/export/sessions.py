"""Graphs as the service loads them."""

from pathlib import Path

import onnxruntime

from service.model.session import keep_exact


def session_of(graph: Path | bytes) -> onnxruntime.InferenceSession:
    """One that gives the same vectors on every processor, on one thread."""
    options = onnxruntime.SessionOptions()
    keep_exact(options)
    options.intra_op_num_threads = 1
    source = str(graph) if isinstance(graph, Path) else graph
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
