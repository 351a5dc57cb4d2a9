"""Which passages a question is trained against: drawn by chance, or those that a bi-encoder takes for answers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from training.evaluation.vectors import Encode, nearest
from training.reranking.collection import Collection, Question, Texts
from training.reranking.pairs import AlignedPair

Negatives = list[tuple[int, ...]]  # of each question: indices of passages


def random_negatives(collection: Collection, count: int, *, seed: int) -> Negatives:
    """Draw `count` of each question's candidates that do not answer it, or as many as there are.

    Of a whole collection only passages in all languages of the question's first positive are drawn.
    """
    generator = np.random.default_rng((seed, 5))
    pools: dict[frozenset[str], NDArray[np.int64]] = {}
    return [_drawn(_pool(collection, question, pools), question, count, generator) for question in collection.questions]


def near_negatives(collection: Collection, count: int, *, depth: int, seed: int) -> Negatives:
    """Draw `count` from the `depth` candidates that stand closest to each question's first positive in its file.

    Files keep the passages of one article together, so most of these are on the same subject.
    """
    generator = np.random.default_rng((seed, 8))
    pools: dict[frozenset[str], NDArray[np.int64]] = {}
    negatives = []
    for question in collection.questions:
        pool = _pool(collection, question, pools)
        middle = int(np.searchsorted(pool, question.positives[0]))
        first = max(0, min(middle - depth // 2, len(pool) - depth))
        negatives.append(_drawn(pool[first : first + depth], question, count, generator))
    return negatives


def hard_negatives(
    collection: Collection, count: int, *, encode_query: Encode, encode_passage: Encode, depth: int, seed: int
) -> Negatives:
    """Draw `count` from the `depth` candidates nearest to each question that do not answer it.

    Of a whole collection only passages in all languages of the question's first positive are drawn: the same text with
    another translation may answer it. Each text is encoded in the first language that it has, so the encoder must be
    cross-lingual.
    """
    generator = np.random.default_rng((seed, 6))
    query_QD = encode_query([_any_text(question.texts) for question in collection.questions])
    passage_ND = encode_passage([_any_text(passage) for passage in collection.passages])
    pools: dict[frozenset[str], NDArray[np.int64]] = {}
    rows_of_pool: dict[Hashable, list[int]] = {}
    for row, question in enumerate(collection.questions):
        languages = frozenset(collection.passages[question.positives[0]])
        rows_of_pool.setdefault(languages if question.candidates is None else row, []).append(row)
    negatives: dict[int, tuple[int, ...]] = {}
    for rows in rows_of_pool.values():
        pool = _pool(collection, collection.questions[rows[0]], pools)
        most = max(len(collection.questions[row].positives) for row in rows)
        _, place_RK = nearest(query_QD[rows], passage_ND[pool], depth + most)
        for row, nearest_K in zip(rows, pool[place_RK], strict=True):
            others = nearest_K[~np.isin(nearest_K, collection.questions[row].positives)][:depth]
            negatives[row] = tuple(generator.permutation(others)[:count].tolist())
    return [negatives[row] for row in range(len(collection.questions))]


def joined_negatives(first: Negatives, second: Negatives, count: int) -> Negatives:
    """Take half of `count` from the first, the larger half if odd, the rest from the second; no passage twice."""
    share = count - count // 2
    return [
        tuple(dict.fromkeys([*one[:share], *other, *one[share:]]))[:count]
        for one, other in zip(first, second, strict=True)
    ]


def aligned_pairs(collection: Collection, negatives: Sequence[Sequence[int]]) -> list[AlignedPair]:
    """Pair each question with its positives and its negatives."""
    return [
        AlignedPair(number, question.texts, collection.passages[index], is_positive)
        for number, (question, others) in enumerate(zip(collection.questions, negatives, strict=True))
        for indices, is_positive in ((question.positives, True), (others, False))
        for index in indices
    ]


def _pool(
    collection: Collection, question: Question, pools: dict[frozenset[str], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return the passages to draw from; those of all passages are cached by languages."""
    wanted = frozenset(collection.passages[question.positives[0]])
    if question.candidates is not None:
        return np.sort(np.array(question.candidates, dtype=np.int64))
    if wanted not in pools:
        passages = enumerate(collection.passages)
        pools[wanted] = np.array([index for index, texts in passages if wanted <= texts.keys()], dtype=np.int64)
    return pools[wanted]


def _drawn(pool: NDArray[np.int64], question: Question, count: int, generator: np.random.Generator) -> tuple[int, ...]:
    """Draw a few more than wanted and drop the positives: permuting a large pool is slow."""
    several = min(len(pool), count + len(question.positives))
    drawn = pool[generator.choice(len(pool), size=several, replace=False, shuffle=True)]
    return tuple(drawn[~np.isin(drawn, question.positives)][:count].tolist())


def _any_text(texts: Texts) -> str:
    return next(iter(texts.values()))
