"""Embeds texts with an ONNX file, one at a time, on one thread. Independent of torch.

Shapes: N texts, L tokens, D dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import tokenizers  # type: ignore[import-untyped]

from service.model.session import keep_exact


def open_session(model: Path) -> onnxruntime.InferenceSession:
    """On one thread, with the service's arithmetic."""
    options = onnxruntime.SessionOptions()
    keep_exact(options)
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


class OnnxEncoder:
    """A tokenizer and an ONNX Runtime session."""

    def __init__(self, model: Path, tokenizer: tokenizers.Tokenizer, *, max_length: int) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.enable_truncation(max_length)
        self._session = open_session(model)

    def token_ids(self, text: str) -> list[int]:
        """Token ids of a text, truncated at `max_length`, including special tokens."""
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed texts: (N, D) float32, norm 1, in the order of `texts`."""
        return self.embed_ids([self.token_ids(text) for text in texts])

    def embed_ids(self, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """Embed texts that are tokenised."""
        return embed_ids(self._session, rows)


def embed_ids(session: onnxruntime.InferenceSession, rows: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    """The vectors of rows of token ids, one at a time: (N, D) float32, norm 1."""
    return np.concatenate([_embed_one(session, ids) for ids in rows])


def _embed_one(session: onnxruntime.InferenceSession, ids: Sequence[int]) -> npt.NDArray[np.float32]:
    input_ids_1L = np.array([ids], dtype=np.int64)  # int64: the graph's input type
    inputs = {"input_ids": input_ids_1L, "attention_mask": np.ones_like(input_ids_1L)}
    embedding_1D: npt.NDArray[np.float32] = session.run(["sentence_embedding"], inputs)[0]
    return embedding_1D
