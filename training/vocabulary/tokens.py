"""Token ids of every text of a corpus: one flat array on disk, and where each text starts in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from torch import Tensor
from tqdm import tqdm

from training.system.arrays import ArrayWriter, map_array
from training.system.files import write_json_atomically

ENCODE_BATCH = 10_000  # texts
COUNT_CHUNK = 1_000_000  # tokens


@dataclass(frozen=True)
class TokenStore:
    """Ids of text i are `ids[offsets[i]:offsets[i + 1]]`, special tokens included, truncated by the builder."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    pad_id: int

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text, (texts,) int64."""
        return np.diff(self.offsets)

    def lengths_of(self, texts: NDArray[np.int32]) -> NDArray[np.int64]:
        """Number of tokens of these texts."""
        return self.offsets[texts + 1] - self.offsets[texts]

    def counts(self, vocab_size: int) -> NDArray[np.int64]:
        """How often each token occurs: (V,) int64."""
        counts_V = np.zeros(vocab_size, dtype=np.int64)
        for start in range(0, len(self.ids), COUNT_CHUNK):
            counts_V += np.bincount(self.ids[start : start + COUNT_CHUNK], minlength=vocab_size)
        return counts_V

    def batch(self, texts: NDArray[np.int32], *, max_length: int) -> tuple[Tensor, Tensor]:
        """Padded ids and mask of these texts: two (B, L) int64 tensors, L the longest length, at most `max_length`.

        A text longer than `max_length` keeps its last token ([SEP]).
        """
        start_B, length_B = self.offsets[texts], self.lengths_of(texts)
        kept_B = np.minimum(length_B, max_length)
        place_L = np.arange(kept_B.max())
        is_token_BL = place_L < kept_B[:, None]
        place_BL = np.where(is_token_BL, place_L, 0)
        cut = np.flatnonzero(length_B > max_length)
        place_BL[cut, -1] = length_B[cut] - 1
        ids_BL = np.where(is_token_BL, self.ids[start_B[:, None] + place_BL], self.pad_id)
        return torch.from_numpy(ids_BL.astype(np.int64)), torch.from_numpy(is_token_BL.astype(np.int64))

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | NDArray[np.int32]], *, pad_id: int) -> TokenStore:
        """The store of these rows of token ids, in memory: 4 bytes a token."""
        ids = np.concatenate([np.empty(0, np.int32), *(np.array(row, dtype=np.int32) for row in rows)])
        return cls(ids, np.cumsum([0, *map(len, rows)], dtype=np.int64), pad_id)

    @classmethod
    def load(cls, folder: Path) -> TokenStore:
        """Memory-map the store."""
        pad_id = json.loads((folder / "tokens.json").read_text(encoding="utf-8"))["pad_id"]
        return cls(map_array(folder / "ids.npy"), map_array(folder / "offsets.npy"), pad_id)


def build_token_store(
    texts: Sequence[str], tokenizer: Tokenizer, folder: Path, *, max_length: int, pad_id: int
) -> None:
    """Tokenise `texts` in order and write the store, with one batch in memory."""
    tokenizer.enable_truncation(max_length)
    tokenizer.no_padding()
    with ArrayWriter(folder / "ids.npy", np.int32) as ids, ArrayWriter(folder / "offsets.npy", np.int64) as offsets:
        offsets.append(np.zeros(1))
        for start in tqdm(range(0, len(texts), ENCODE_BATCH), desc="tokens", unit="batch"):
            rows = [encoding.ids for encoding in tokenizer.encode_batch(texts[start : start + ENCODE_BATCH])]
            offsets.append(len(ids) + np.cumsum([len(row) for row in rows]))
            ids.append(np.concatenate(rows))
    write_json_atomically(folder / "tokens.json", {"pad_id": pad_id})
