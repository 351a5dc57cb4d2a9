"""Trains a model on a lesson, and moves its weights part of the way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from training.adaptation.lesson import Lesson, Passes
from training.config.run import ContrastiveConfig
from training.errors import AlignmentError, DivergedError
from training.models.encoder import train_with_rounded_words, word_table
from training.models.sentence_encoder import SentenceEncoder
from training.optimisation.batches import BatchStream
from training.optimisation.loop import train
from training.stages.objectives import contrastive_objective
from training.stages.pairs import PairEncoder

Unfrozen = Literal["words", "all"]
UNFROZEN: tuple[Unfrozen, ...] = get_args(Unfrozen)
RATES: Mapping[Unfrozen, float] = {"words": 3e-3, "all": 2e-4}  # of the word table, of all else
WORDS_FASTER = 5  # times the rate of all else: a row is rarely used, and rounded to 4 bits
SAVED_EVERY = 1.0  # minutes
State = dict[str, Tensor]


@dataclass(frozen=True)
class Settings:
    """How a model is trained.

    As in stage 4, with the diagonal as labels: a thousand pairs have few sentences that are alike, as soft labels need.
    rate: None: that of `RATES`.  round_words: train with a word table that is rounded as it will be stored.
    """

    unfreeze: Unfrozen = "all"
    epochs: int = 4
    rate: float | None = None
    batch: int = 32
    max_length: int = 64  # tokens of a text
    seed: int = 0
    round_words: bool = False

    def stage(self) -> ContrastiveConfig:
        """The settings of stage 4."""
        rate = self.rate or RATES[self.unfreeze]
        return ContrastiveConfig(
            epochs=self.epochs,
            batch_size=self.batch,
            learning_rate=rate,
            embedding_learning_rate=rate if self.unfreeze == "words" else WORDS_FASTER * rate,
            max_length=self.max_length,
            sparse_embeddings=True,
            objective="ce_hard",
            mcl_weight=0.2,
        )


def train_lesson(
    model: SentenceEncoder, lesson: Lesson, settings: Settings, device: torch.device, folder: Path
) -> None:
    """Train in place, with progress; what is not unfrozen stays.

    folder: has the state of an interrupted training of the same lesson, which goes on.

    Raises: AlignmentError: the loss is not a finite number.
    """
    freeze(model, settings.unfreeze)
    if settings.round_words:
        train_with_rounded_words(model.encoder)
    config, pairs = settings.stage(), PairEncoder(lesson.corpus, lesson.tokens, settings.max_length, device)
    plan = Passes(lesson, settings.epochs, settings.seed)
    batches = BatchStream(
        plan, pairs.pair_lengths, settings.batch, seed=settings.seed, epoch_pairs=len(plan) // settings.epochs
    )
    objective = contrastive_objective(model, lesson.labels, pairs, config)
    try:
        train(objective, batches, config, folder, name="adapt", checkpoint_minutes=SAVED_EVERY, device=device)
    except DivergedError as exc:
        raise AlignmentError(f"training diverged at rate {config.learning_rate}; lower --learning-rate") from exc


def freeze(model: SentenceEncoder, unfreeze: Unfrozen) -> None:
    """Leave trainable the word table alone, or everything."""
    model.requires_grad_(unfreeze == "all")
    if unfreeze == "words":
        word_table(model.encoder).requires_grad_(True)


def keep_rows(before: State, after: State, added: int) -> None:
    """Copy the new rows of the word table from `after` to `before`: no other language uses them."""
    for name, table in before.items():
        if added and re.fullmatch(r".*\.word_embeddings\.(table\.)?weight", name):
            table[-added:] = after[name][-added:]


def move_weights(model: SentenceEncoder, before: State, after: State, strength: float) -> None:
    """Set the weights part of the way from before to after (Wortsman et al. 2022, WiSE-FT)."""
    model.load_state_dict({name: torch.lerp(old, after[name], strength) for name, old in before.items()})
