"""Runs an ONNX file on token ids, one row at a time, on one thread, as the service does. Independent of torch.

Shapes: N rows, L tokens, D dims; a re-ranker's D is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnxruntime

from service.model.session import session_options

Rows = Sequence[Sequence[int]]  # token ids, special ones included
Outputs = npt.NDArray[np.float32]
OutputName = Literal["sentence_embedding", "score"]


def open_session(model: Path | bytes) -> onnxruntime.InferenceSession:
    """Open a file, or its content, on one thread, with the service's arithmetic."""
    return onnxruntime.InferenceSession(model, session_options(), providers=["CPUExecutionProvider"])


def run_each(session: onnxruntime.InferenceSession, rows: Rows, output: OutputName = "sentence_embedding") -> Outputs:
    """Run each row alone: (N, D) float32."""
    outputs = []
    for ids in rows:
        input_ids_1L = np.array([ids], dtype=np.int64)  # int64: the graph's input type
        inputs = {"input_ids": input_ids_1L, "attention_mask": np.ones_like(input_ids_1L)}
        outputs.append(session.run([output], inputs)[0])
    return np.concatenate(outputs)
