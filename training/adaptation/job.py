"""Pairs and a model to a better model, top to bottom. Knows the order of the steps; writes no file of the user's.

Shapes: N texts, D dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from training.adaptation.lesson import kept_texts, make_lesson
from training.adaptation.pieces import with_new_pieces
from training.adaptation.start import Fertility, Start, check_known, fertility
from training.adaptation.trainer import Settings, copy_state, keep_rows, mover, train_lesson
from training.alignment.candidates import choose
from training.alignment.job import Sides, sts_scores
from training.alignment.pairs import Pair, PairFile, Split
from training.alignment.probe import ProbeScores, embed_probe, losses_of, probe_scores
from training.alignment.vectors import Known
from training.evaluation.bitext import score_bitext
from training.evaluation.encoders import Model, TextEncoder
from training.evaluation.vectors import Encode, unit_rows
from training.system.device import pick_device

STRENGTHS = (0.25, 0.5, 0.75, 1.0)  # how far the weights are moved towards the trained ones


@dataclass(frozen=True)
class Task:
    """What is adapted.

    model: as it is served before.  data: folder with stsb or eval/stsb, or None.  new_pieces: how many at most.
    """

    model: Model
    start: Start
    pairs: PairFile
    split: Split
    data: Path | None = None
    settings: Settings = field(default_factory=Settings)
    new_pieces: int = 0


@dataclass(frozen=True)
class Candidate:
    """Weights moved part of the way.  dev_p1: P@1 x 100, both ways averaged."""

    strength: float
    dev_p1: float


@dataclass(frozen=True)
class Training:
    """How training went.

    start: the trained model, its vocabulary with the new pieces.  pieces: how many are new.
    cut: how the vocabulary before cut both sides of the training pairs.  fertility: how that of `start` does.
    before_p1: of dev.  candidates: the best on dev first.
    lost: of those that were looked at, by strength: what each language lost beyond the limit, on the probe and on STS.
    """

    start: Start
    pieces: int
    cut: tuple[Fertility, Fertility]
    fertility: tuple[Fertility, Fertility]
    before_p1: float
    candidates: list[Candidate]
    chosen: Candidate
    lost: dict[float, ProbeScores]


@dataclass(frozen=True)
class Served:
    """What a served model scores.  test: P@1 and P@5 x 100.  sides: unit vectors of the test, for the plot."""

    test: ProbeScores
    probe: ProbeScores
    sts: ProbeScores
    sides: Sides


def adapt(task: Task) -> Training:
    """Add pieces, train, choose how far to go, and leave those weights in the returned start's model.

    Raises: AlignmentError: the tokenizer does not know a language, no piece can be added, or training diverges.
    """
    languages = task.model.languages
    start, added = task.start, 0
    cut = found = fertility_of(task, start)
    if task.new_pieces:
        sides = [side for side in (0, 1) if not is_known(task.pairs.languages[side], languages)]
        start, added = with_new_pieces(start, task.split.train, sides, task.new_pieces)
        found = fertility_of(task, start)
    for column, (one, language) in enumerate(zip(found, task.pairs.languages, strict=True), start=1):
        check_known(one, column=column, language=language)
    device = pick_device()
    model = start.model.to(device)

    def encoder_of(start: Start) -> TextEncoder:
        return TextEncoder(model, start.tokenizer, max_length=start.max_length, bf16=True)

    def elsewhere(encode: Encode) -> tuple[ProbeScores, ProbeScores]:
        known = Known(encode, "similarity")
        return probe_scores(embed_probe(encode, languages)), sts_scores(known, task.data, languages)

    encode = encoder_of(task.start)  # the vocabulary before reads the same rows
    before_p1, (probe, sts) = p1_of(task.split.dev, encode), elsewhere(encode)
    encode = encoder_of(start)
    lesson = make_lesson(
        task.split.train,
        kept_texts(languages),
        partial(in_steps, encode),
        start.tokenizer,
        anchor=anchor_of(task.pairs.languages, languages),
        max_length=task.settings.max_length,
    )
    before = copy_state(model)
    train_lesson(model, lesson, task.settings, device)
    after = copy_state(model)
    keep_rows(before, after, added)
    move = mover(model, before, after)

    def candidate(strength: float) -> Candidate:
        move(strength)
        return Candidate(strength, p1_of(task.split.dev, encode))

    def harmless(one: Candidate) -> bool:
        move(one.strength)
        probe_then, sts_then = elsewhere(encode)
        lost[one.strength] = losses_of(probe, probe_then) | losses_of(sts, sts_then)
        return not lost[one.strength]

    lost: dict[float, ProbeScores] = {}
    candidates = sorted(map(candidate, STRENGTHS), key=lambda one: -one.dev_p1)  # of equals, the weaker first
    chosen, _ = choose(candidates, harmless)
    move(chosen.strength)
    model.cpu()
    return Training(start, added, cut, found, before_p1, candidates, chosen, lost)


def fertility_of(task: Task, start: Start) -> tuple[Fertility, Fertility]:
    """Of both sides of the training pairs."""
    left, right = ([pair[side] for pair in task.split.train] for side in (0, 1))
    return fertility(left, start.tokenizer), fertility(right, start.tokenizer)


def is_known(language: str, known: Sequence[str] | None) -> bool:
    """Whether a model was taught a language, with or without a script behind (zh_Hant); None: it does not say."""
    return language.split("_")[0] in {one.split("_")[0] for one in known or ()}


def anchor_of(languages: tuple[str, str], known: Sequence[str] | None) -> int | None:
    """The side that the model knows, where it knows one alone: its vectors are the labels of both."""
    if known is None:
        return None
    knows = [is_known(language, known) for language in languages]
    return None if knows[0] == knows[1] else knows.index(True)


def served_scores(model: Model, task: Task, *, name: str) -> Served:
    """Measure a served model on the test pairs, the probe and STS.  name: of the bars."""
    known = Known(model.encode, name)
    known.learn([text for pair in task.split.test for text in pair])
    left, right = (unit_rows(known([pair[side] for pair in task.split.test])) for side in (0, 1))
    probe = probe_scores(embed_probe(known, task.model.languages))
    return Served(score_bitext(left, right), probe, sts_scores(known, task.data, task.model.languages), (left, right))


def lost_of(before: Served, after: Served) -> ProbeScores:
    """What lost more than is allowed."""
    return losses_of(before.probe, after.probe) | losses_of(before.sts, after.sts)


def p1_of(pairs: Sequence[Pair], encode: Encode) -> float:
    """P@1 x 100, both ways averaged."""
    left, right = (unit_rows(encode([pair[side] for pair in pairs])) for side in (0, 1))
    return score_bitext(left, right)["p1"]


def in_steps(encode: Encode, texts: Sequence[str]) -> np.ndarray:
    """The vectors, (N, D), with progress."""
    return Known(encode, "labels")(texts)
