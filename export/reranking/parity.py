"""Pairs with the ids and scores a re-ranker must give on any machine. Knows nothing about files or limits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

from export.reranking.checkpoint import Pair, RerankerRecord
from export.reranking.scorer import OnnxReranker
from export.texts import PARITY_TEXTS
from service.model.artifact import SCHEMA_VERSION, PairParityPack
from service.model.reranker import PairTokenizer

DECIMALS = 7  # a float32 in [0, 1] has no more that matter


def parity_pairs(record: RerankerRecord) -> tuple[Pair, ...]:
    """In each language a text beside its translation into the next one, and beside another text.

    Last a passage and a query of all of them, each long enough to be cut.
    """
    known = [PARITY_TEXTS[language] for language in record.languages if language in PARITY_TEXTS]
    texts = known or [PARITY_TEXTS["en"]]
    pairs = [
        (query, passage)
        for (query, *_), passages in zip(texts, islice(cycle(texts), 1, None), strict=False)
        for passage in passages
    ]
    words = [word for language in texts for text in language for word in text.split()]
    long = " ".join(words * (record.max_length // len(words) + 1))  # a word has at least one token
    return (*pairs, (pairs[0][0], long), (long, pairs[0][1]))


def parity_pack(
    scorer: OnnxReranker, tokenizer: PairTokenizer, pairs: Sequence[Pair], *, max_difference: float
) -> PairParityPack:
    """The ids that the service reads and their scores on this machine, one pair at a time."""
    rows = [tokenizer.tokenize(query, passage).input_ids for query, passage in pairs]
    return PairParityPack(
        schema_version=SCHEMA_VERSION,
        max_difference=max_difference,
        pairs=tuple(pairs),
        input_ids=tuple(tuple(ids) for ids in rows),
        scores=tuple(round(float(score), DECIMALS) for score in map(scorer.score_ids, rows)),
    )
