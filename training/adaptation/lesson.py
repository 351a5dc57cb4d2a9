"""What a model is taught: a user's pairs in both directions, and texts whose vectors must stay as they are.

Shapes: U distinct texts, P pairs, K texts to keep, D dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from training.alignment.pairs import Pair
from training.alignment.scores import is_known
from training.corpora.corpus import Corpus
from training.evaluation.lines import read_lines
from training.evaluation.vectors import Encode, unit_rows
from training.stages.pairs import TeacherLabels
from training.vocabulary.tokens import TokenStore

KEPT_TEXT = Path(__file__).parent / "kept.tsv"
KEPT_SHARE = 0.5  # texts to keep for each pair, in a pass


@dataclass(frozen=True)
class Lesson:
    """Pairs of a corpus: P of the user's, the same P in the other direction, and K texts with themselves.

    labels: of a text to keep, its own vector; of a pair's texts, see `pair_labels`.
    """

    corpus: Corpus
    tokens: TokenStore
    labels: TeacherLabels
    pairs: int


@dataclass(frozen=True)
class Passes:
    """A plan: each pass has all pairs, each in a random direction, and up to `KEPT_SHARE` texts to keep a pair."""

    lesson: Lesson
    rounds: int
    seed: int

    def __len__(self) -> int:
        return self.rounds * len(self.round(0))

    def round(self, index: int) -> NDArray[np.int64]:
        """The pairs of a pass, in order."""
        generator, pairs = np.random.default_rng((self.seed, index)), self.lesson.pairs
        turned = np.arange(pairs) + pairs * generator.integers(0, 2, pairs)
        kept = generator.permutation(np.arange(2 * pairs, len(self.lesson.corpus)))[: round(KEPT_SHARE * pairs)]
        order: NDArray[np.int64] = generator.permutation(np.concatenate([turned, kept]))
        return order


def kept_texts(languages: Sequence[str] | None) -> list[str]:
    """20 sentences of each language that the model knows (None: of all); none of them is in the probe."""
    rows = (line.split("\t") for line in read_lines(KEPT_TEXT))
    return [text for language, text in rows if languages is None or is_known(language, languages)]


def make_lesson(
    pairs: Sequence[Pair],
    kept: Sequence[str],
    encode: Encode,
    tokenizer: PreTrainedTokenizerFast,
    *,
    anchor: int | None,
    max_length: int,
) -> Lesson:
    """Args: encode: the model before training.  anchor: see `pair_labels`.  max_length: tokens of a text."""
    texts = list(dict.fromkeys([text for pair in pairs for text in pair] + [*kept]))
    number = {text: row for row, text in enumerate(texts)}
    left_P, right_P = np.array([(number[left], number[right]) for left, right in pairs], dtype=np.int32).T
    kept_K = np.array([number[text] for text in kept], dtype=np.int32)
    english = np.concatenate([left_P, right_P, kept_K])
    corpus = Corpus(
        texts=texts,
        english_count=len(texts),
        english=english,
        other=np.concatenate([right_P, left_P, kept_K]),
        languages=["any"],
        sources=["pairs"],
        language_code=np.zeros(len(english), dtype=np.uint16),
        source_code=np.zeros(len(english), dtype=np.uint16),
    )
    rows = tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
    tokens = TokenStore.of(rows, pad_id=int(tokenizer.pad_token_id))
    label_UD = pair_labels(encode(texts), left_P, right_P, anchor)
    return Lesson(corpus, tokens, TeacherLabels(label_UD, np.arange(len(texts))), len(pairs))


def pair_labels(
    vector_UD: NDArray[np.float32], left_P: NDArray[np.int32], right_P: NDArray[np.int32], anchor: int | None
) -> NDArray[np.float32]:
    """The label of each text, norm 1: the mean over its pairs, or its own vector if it has no pair.

    Args: anchor: the side whose vector is the pair's label, 0 or 1; None: the middle of both.
    """
    unit_UD = unit_rows(vector_UD)
    sides = [unit_UD[rows] for rows in (left_P, right_P)]
    label_PD = sides[0] + sides[1] if anchor is None else sides[anchor]
    total_UD = np.zeros_like(unit_UD)
    for rows in (left_P, right_P):
        np.add.at(total_UD, rows, unit_rows(label_PD))
    alone = np.setdiff1d(np.arange(len(unit_UD)), np.concatenate([left_P, right_P]))
    total_UD[alone] = unit_UD[alone]
    return unit_rows(total_UD)
