"""Encodes texts with an exported artifact as the service does: one at a time, on one thread."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer  # type: ignore[import-untyped]


class ArtifactEncoder:
    """Texts to vectors through `model.onnx` and `tokenizer.json`, each distinct text once."""

    def __init__(self, folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self.languages: list[str] = manifest["languages"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(manifest["max_length"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self.cache: dict[str, NDArray[np.float32]] = {}

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """(N, D) float32, in the order of `texts`."""
        for text in texts:
            if text not in self.cache:
                input_ids_1L = np.array([self.tokenizer.encode(text).ids], dtype=np.int64)
                inputs = {"input_ids": input_ids_1L, "attention_mask": np.ones_like(input_ids_1L)}
                self.cache[text] = self.session.run(["sentence_embedding"], inputs)[0][0]
        return np.stack([self.cache[text] for text in texts])
