"""Which passages a question is trained against: by chance, by their place, or a bi-encoder's nearest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from training.evaluation.encoders import Model
from training.evaluation.vectors import Encode, each_text_once, nearest
from training.reranking.collection import Collection, Question, Texts
from training.reranking.config import NegativesConfig
from training.reranking.pairs import AlignedPair

Negatives = list[tuple[int, ...]]  # of each question: indices of passages
Indices = NDArray[np.int64]


def find_negatives(collection: Collection, settings: NegativesConfig, *, encoder: Model | None, seed: int) -> Negatives:
    """Return the negatives of each question.

    Args: encoder: for hard negatives.
    """
    count, depth = settings.count, settings.depth
    if settings.kind == "near":
        return near_negatives(collection, count, depth=depth, seed=seed)
    if settings.kind == "random" or encoder is None:
        return random_negatives(collection, count, seed=seed)
    encoders = each_text_once(encoder.encode_query), each_text_once(encoder.encode_document)
    hard = hard_negatives(collection, count, *encoders, depth=depth, seed=seed)
    if settings.kind == "hard":
        return hard
    return joined_negatives(near_negatives(collection, count, depth=depth, seed=seed), hard, count)


def random_negatives(collection: Collection, count: int, *, seed: int) -> Negatives:
    """Draw `count` of each question's candidates that do not answer it, or as many as there are.

    Of a whole collection only passages in all languages of the question's first positive are drawn: the same text with
    another translation may answer it.
    """
    generator = np.random.default_rng((seed, 5))
    rows = zip(collection.questions, _pools(collection), strict=True)
    return [_drawn(pool, question, count, generator) for question, pool in rows]


def near_negatives(collection: Collection, count: int, *, depth: int, seed: int) -> Negatives:
    """Draw as `random_negatives`, from the `depth` candidates that stand closest to the first positive in its file.

    Files keep the passages of one article together, so most of these are on the same subject.
    """
    generator = np.random.default_rng((seed, 8))
    negatives = []
    for question, pool in zip(collection.questions, _pools(collection), strict=True):
        middle = int(np.searchsorted(pool, question.positives[0]))
        first = max(0, min(middle - depth // 2, len(pool) - depth))
        negatives.append(_drawn(pool[first : first + depth], question, count, generator))
    return negatives


def hard_negatives(
    collection: Collection, count: int, encode_query: Encode, encode_passage: Encode, *, depth: int, seed: int
) -> Negatives:
    """Draw as `random_negatives`, from the `depth` candidates nearest to each question that do not answer it.

    Each text is encoded in the first language that it has, so the encoder must be cross-lingual.
    """
    generator = np.random.default_rng((seed, 6))
    query_QD = encode_query([_any_text(question.texts) for question in collection.questions])
    passage_ND = encode_passage([_any_text(passage) for passage in collection.passages])
    rows_of_pool: dict[int, tuple[Indices, list[int]]] = {}
    for row, pool in enumerate(_pools(collection)):
        rows_of_pool.setdefault(id(pool), (pool, []))[1].append(row)
    negatives: dict[int, tuple[int, ...]] = {}
    for pool, rows in rows_of_pool.values():
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
        tuple(dict.fromkeys([*left[:share], *right, *left[share:]]))[:count]
        for left, right in zip(first, second, strict=True)
    ]


def aligned_pairs(collection: Collection, negatives: Sequence[Sequence[int]], *, first: int = 0) -> list[AlignedPair]:
    """Pair each question with its positives and its negatives.

    Args: first: the number of the first question.
    """
    return [
        AlignedPair(number, question.texts, collection.passages[index], is_positive)
        for number, (question, others) in enumerate(zip(collection.questions, negatives, strict=True), start=first)
        for indices, is_positive in ((question.positives, True), (others, False))
        for index in indices
    ]


def _pools(collection: Collection) -> Iterator[Indices]:
    """Yield the passages to draw from for each question: its candidates, or all in its first positive's languages."""
    by_languages: dict[frozenset[str], Indices] = {}
    for question in collection.questions:
        languages = frozenset(collection.passages[question.positives[0]])
        if question.candidates is not None:
            yield np.sort(np.array(question.candidates, dtype=np.int64))
            continue
        if languages not in by_languages:
            indices = [index for index, texts in enumerate(collection.passages) if languages <= texts.keys()]
            by_languages[languages] = np.array(indices, dtype=np.int64)
        yield by_languages[languages]


def _drawn(pool: Indices, question: Question, count: int, generator: np.random.Generator) -> tuple[int, ...]:
    """Draw a few more than wanted and drop the positives: permuting a large pool is slow."""
    several = min(len(pool), count + len(question.positives))
    drawn = pool[generator.choice(len(pool), size=several, replace=False, shuffle=True)]
    return tuple(drawn[~np.isin(drawn, question.positives)][:count].tolist())


def _any_text(texts: Texts) -> str:
    return next(iter(texts.values()))
