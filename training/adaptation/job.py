"""Pairs and a model to a better model, top to bottom. Knows the order of the steps; writes no file of the user's.

Shapes: N texts, D dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from training.adaptation.fertility import Fertility, check_known, fertility
from training.adaptation.lesson import kept_texts, make_lesson
from training.adaptation.start import Start
from training.adaptation.trainer import Settings, copy_state, mover, train_lesson
from training.alignment.candidates import choose
from training.alignment.job import Sides, sts_scores
from training.alignment.pairs import Pair, PairFile
from training.alignment.probe import Scores, embed_probe, losses_of, probe_scores
from training.alignment.split import Split
from training.alignment.vectors import Known
from training.evaluation.bitext import score_bitext
from training.evaluation.encoders import Model, TextEncoder
from training.evaluation.vectors import Encode, unit_rows
from training.system.device import pick_device

STRENGTHS = (0.25, 0.5, 0.75, 1.0)  # how far the weights are moved towards the trained ones


@dataclass(frozen=True)
class Task:
    """What is adapted.  model: as it is served before.  data: folder with stsb or eval/stsb, or None."""

    model: Model
    start: Start
    pairs: PairFile
    split: Split
    data: Path | None = None
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Candidate:
    """Weights moved part of the way.  dev_p1: P@1 x 100, both ways averaged."""

    strength: float
    dev_p1: float


@dataclass(frozen=True)
class Training:
    """How training went.

    fertility: of both sides of the training pairs.  before_p1: of dev.  candidates: the best on dev first.
    lost: of those that were looked at, by strength: what each language lost beyond the limit, on the probe and on STS.
    """

    fertility: tuple[Fertility, Fertility]
    before_p1: float
    candidates: list[Candidate]
    chosen: Candidate
    lost: dict[float, Scores]


@dataclass(frozen=True)
class Served:
    """What a served model scores.  test: P@1 and P@5 x 100.  sides: unit vectors of the test, for the plot."""

    test: Scores
    probe: Scores
    sts: Scores
    sides: Sides


def adapt(task: Task) -> Training:
    """Train, choose how far to go, and leave those weights in `task.start.model`.

    Raises: AlignmentError: the tokenizer does not know a language, or training diverges.
    """
    left, right = ([pair[side] for pair in task.split.train] for side in (0, 1))
    cut = fertility(left, task.start.tokenizer), fertility(right, task.start.tokenizer)
    for column, (found, language) in enumerate(zip(cut, task.pairs.languages, strict=True), start=1):
        check_known(found, column=column, language=language)
    device = pick_device()
    model = task.start.model.to(device)
    encode = TextEncoder(model, task.start.tokenizer, max_length=task.start.max_length, bf16=True)
    lesson = make_lesson(
        task.split.train,
        kept_texts(task.model.languages),
        partial(in_steps, encode),
        task.start.tokenizer,
        anchor=anchor_of(task.pairs.languages, task.model.languages),
        max_length=task.settings.max_length,
    )

    def elsewhere() -> tuple[Scores, Scores]:
        return probe_scores(embed_probe(encode, task.model.languages)), sts_scores(
            Known(encode), task.data, task.model.languages
        )

    probe, sts = elsewhere()
    before_p1, before = p1_of(task.split.dev, encode), copy_state(model)
    train_lesson(model, lesson, task.settings, device)
    move = mover(model, before, copy_state(model))

    def candidate(strength: float) -> Candidate:
        move(strength)
        return Candidate(strength, p1_of(task.split.dev, encode))

    def harmless(one: Candidate) -> bool:
        move(one.strength)
        probe_then, sts_then = elsewhere()
        lost[one.strength] = losses_of(probe, probe_then) | losses_of(sts, sts_then)
        return not lost[one.strength]

    lost: dict[float, Scores] = {}
    candidates = sorted(map(candidate, STRENGTHS), key=lambda one: -one.dev_p1)  # of equals, the weaker first
    chosen, _ = choose(candidates, harmless)
    move(chosen.strength)
    model.cpu()
    return Training(cut, before_p1, candidates, chosen, lost)


def anchor_of(languages: tuple[str, str], known: Sequence[str] | None) -> int | None:
    """The side that the model knows, where it knows one alone: its vectors are the labels of both."""
    if known is None:
        return None
    base = {language.split("_")[0] for language in known}
    knows = [language.split("_")[0] in base for language in languages]
    return None if knows[0] == knows[1] else knows.index(True)


def served_scores(model: Model, task: Task) -> Served:
    """Measure a served model on the test pairs, the probe and STS."""
    known = Known(model.encode)
    known.learn([text for pair in task.split.test for text in pair])
    left, right = (unit_rows(known([pair[side] for pair in task.split.test])) for side in (0, 1))
    probe = probe_scores(embed_probe(known, task.model.languages))
    return Served(score_bitext(left, right), probe, sts_scores(known, task.data, task.model.languages), (left, right))


def lost_of(before: Served, after: Served) -> Scores:
    """What lost more than is allowed."""
    return losses_of(before.probe, after.probe) | losses_of(before.sts, after.sts)


def p1_of(pairs: Sequence[Pair], encode: Encode) -> float:
    """P@1 x 100, both ways averaged."""
    left, right = (unit_rows(encode([pair[side] for pair in pairs])) for side in (0, 1))
    return score_bitext(left, right)["p1"]


def in_steps(encode: Encode, texts: Sequence[str]) -> np.ndarray:
    """The vectors, (N, D), with progress."""
    return Known(encode)(texts)
