"""Splits pairs into those to train on, to choose with and to measure with. Knows files of pairs; knows no model."""

from __future__ import annotations

from dataclasses import dataclass

from training.alignment.pairs import Pair, PairFile, check_disjoint, split_pairs
from training.errors import AlignmentError

DEV_SHARE, MOST_DEV = 0.1, 500
TEST_SHARE, MOST_TEST = 0.15, 500


@dataclass(frozen=True)
class Split:
    """Pairs to train on, to choose with, and to measure with: no sentence is in two of them."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def split_file(pairs: PairFile, test: PairFile | None, *, seed: int) -> Split:
    """Args: test: None: part of the pairs is held out.

    Raises: AlignmentError: the test has sentences of the pairs, or too little is left to train on.
    """
    if test is not None:
        check_disjoint(pairs, test)
        rest, measured = pairs.pairs, test.pairs
    else:
        rest, measured = split_pairs(pairs.pairs, TEST_SHARE, most=MOST_TEST, seed=seed)
    train, dev = split_pairs(rest, DEV_SHARE, most=MOST_DEV, seed=seed)
    if not (train and dev and measured):
        raise AlignmentError(
            f"{pairs.path} cannot be split: nearly all of its pairs share sentences; give --test and other pairs"
        )
    return Split(train, dev, measured)
