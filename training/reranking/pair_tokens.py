"""`[CLS] query [SEP] passage [SEP]` as token ids.

Only the passage is truncated. A query is cut where it would leave no room for one: at half of the length. White space
at the ends of both is left out, as in the service.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from training.errors import ConfigError
from training.reranking.config import MIN_LENGTH
from training.vocabulary.tokens import TokenStore

ENCODE_BATCH = 10_000  # pairs


class PairTokenizer:
    """Encodes pairs of texts to at most `max_length` tokens, specials included.

    Raises: ConfigError: the tokenizer cannot tell the sides of a pair apart, has no padding token or `max_length` is
        too short for a pair.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, max_length: int) -> None:
        if max_length < MIN_LENGTH:
            raise ConfigError(f"max_length is {max_length}; a pair needs at least {MIN_LENGTH} tokens")
        if tokenizer.pad_token_id is None or tokenizer.sep_token_id is None:
            raise ConfigError("the tokenizer has no padding token or no separator; a cross-encoder needs both")
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.pad_id, self.sep_id = int(tokenizer.pad_token_id), int(tokenizer.sep_token_id)
        self._pairs = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._pairs.no_padding()
        self._pairs.enable_truncation(max_length, strategy="only_second")
        self._queries = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._queries.no_padding()
        self._queries.no_truncation()
        if self._pairs.encode("a", "a").ids.count(self.sep_id) < 2:
            raise ConfigError("the tokenizer puts no separator between the two texts of a pair")

    def store(self, queries: Sequence[str], passages: Sequence[str]) -> TokenStore:
        """Token ids of all pairs, in memory: 4 bytes a token."""
        rows: list[NDArray[np.int32]] = []
        for start in range(0, len(queries), ENCODE_BATCH):
            chunk = slice(start, start + ENCODE_BATCH)
            kept = self._cut([query.strip() for query in queries[chunk]])
            pairs = list(zip(kept, (passage.strip() for passage in passages[chunk]), strict=True))
            rows += [np.array(encoding.ids, dtype=np.int32) for encoding in self._pairs.encode_batch(pairs)]
        return TokenStore.of(rows, pad_id=self.pad_id)

    def batch(self, queries: Sequence[str], passages: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Padded ids and mask of pairs: two (B, L) int64 tensors."""
        store = self.store(queries, passages)
        return store.batch(np.arange(len(queries), dtype=np.int32), max_length=self.max_length)

    def _cut(self, queries: Sequence[str]) -> list[str]:
        room = self.max_length // 2
        encoded = self._queries.encode_batch(list(queries), add_special_tokens=False)
        return [
            query if len(one.ids) <= room else query[: one.offsets[room - 1][1]]
            for query, one in zip(queries, encoded, strict=True)
        ]
