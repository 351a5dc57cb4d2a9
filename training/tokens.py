"""Token ids of every text of a corpus, made once: one flat array on disk and where each text starts in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from torch import Tensor
from tqdm import tqdm

ENCODE_BATCH = 10_000


@dataclass(frozen=True)
class TokenStore:
    """Ids of text i are `ids[offsets[i]:offsets[i + 1]]`, specials included, cut at the length it was made with."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text."""
        return np.diff(self.offsets)

    def batch(self, texts: NDArray[np.int32], *, max_length: int) -> tuple[Tensor, Tensor]:
        """Padded ids and mask of these texts: two (B, L) int64 tensors, L the longest of them or `max_length`.

        A text longer than `max_length` keeps its last token ([SEP]).
        """
        rows = [self.ids[self.offsets[text] : self.offsets[text + 1]] for text in texts]
        rows = [row if len(row) <= max_length else np.append(row[: max_length - 1], row[-1]) for row in rows]
        input_ids_BL = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.int64)  # 0 is [PAD]
        attention_mask_BL = torch.zeros_like(input_ids_BL)
        for index, row in enumerate(rows):
            input_ids_BL[index, : len(row)] = torch.from_numpy(row.astype(np.int64))
            attention_mask_BL[index, : len(row)] = 1
        return input_ids_BL, attention_mask_BL

    @classmethod
    def load(cls, folder: Path) -> TokenStore:
        """Map the store into memory."""
        return cls(np.load(folder / "ids.npy", mmap_mode="r"), np.load(folder / "offsets.npy"))


def build_token_store(texts: list[str], tokenizer: Tokenizer, folder: Path, *, max_length: int) -> None:
    """Tokenise `texts` in order and write the store."""
    tokenizer.enable_truncation(max_length)
    tokenizer.no_padding()
    chunks: list[NDArray[np.int32]] = []
    lengths: list[int] = []
    for start in tqdm(range(0, len(texts), ENCODE_BATCH), desc="tokens", unit="batch"):
        encodings = tokenizer.encode_batch(texts[start : start + ENCODE_BATCH])
        lengths += (len(encoding.ids) for encoding in encodings)
        chunks.append(np.concatenate([np.array(encoding.ids, dtype=np.int32) for encoding in encodings]))
    np.save(folder / "ids.npy", np.concatenate(chunks))
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
