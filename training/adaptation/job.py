"""From pairs and a model to adapted weights. Writes no file of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from training.adaptation.lesson import kept_texts, make_lesson
from training.adaptation.pieces import with_new_pieces
from training.adaptation.start import Fertility, Start, check_known, fertility
from training.adaptation.trainer import Settings, keep_rows, move_weights, train_lesson
from training.alignment.candidates import choose
from training.alignment.pairs import Pair
from training.alignment.scores import Guard, PairTask, Scores, embed_pairs, guard_scores, is_known
from training.evaluation.bitext import score_bitext
from training.evaluation.encoders import TextEncoder
from training.evaluation.vectors import Encode, each_text_once
from training.system.device import pick_device

STRENGTHS = (0.25, 0.5, 0.75, 1.0)  # how far the weights are moved towards the trained ones


@dataclass(frozen=True)
class Task(PairTask):
    """A served model, pairs, and the weights to train.

    new_pieces: how many at most.  folder: for the state of an interrupted training.
    """

    start: Start
    settings: Settings = field(default_factory=Settings)
    new_pieces: int = 0
    folder: Path = field(kw_only=True)


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
    lost: strength -> points lost beyond the limit, on the probe and on STS; only strengths that were measured.
    """

    start: Start
    pieces: int
    cut: tuple[Fertility, Fertility]
    fertility: tuple[Fertility, Fertility]
    before_p1: float
    candidates: list[Candidate]
    chosen: Candidate
    lost: dict[float, Scores]


def adapt(task: Task) -> Training:
    """Add pieces, train, choose how far to go, and leave those weights in the returned start's model.

    Raises: AlignmentError: the tokenizer does not know a language, no piece can be added, or training diverges.
    """
    pair, known, pairs = task.pairs.languages, task.model.languages, task.split.train
    start, added = task.start, 0
    cut = new_cut = _fertility(pairs, start)
    if task.new_pieces:
        sides = [side for side in (0, 1) if not is_known(pair[side], known)]
        start, added = with_new_pieces(start, pairs, sides, task.new_pieces)
        new_cut = _fertility(pairs, start)
    for column, (side_cut, language) in enumerate(zip(new_cut, pair, strict=True), start=1):
        check_known(side_cut, column=column, language=language)
    device = pick_device()
    model = start.model.to(device)
    old_encode, encode = (
        TextEncoder(model, one.tokenizer, max_length=one.max_length, bf16=True) for one in (task.start, start)
    )
    before_p1, guard = _dev_p1(task, old_encode), _guard(task, old_encode)
    lesson = make_lesson(
        pairs,
        kept_texts(known),
        each_text_once(encode, bar="labels"),
        start.tokenizer,
        anchor=anchor_of(pair, known),
        max_length=task.settings.max_length,
    )
    before = deepcopy(model.state_dict())
    train_lesson(model, lesson, task.settings, device, task.folder)
    after = deepcopy(model.state_dict())
    keep_rows(before, after, added)
    candidates = []
    for strength in STRENGTHS:
        move_weights(model, before, after, strength)
        candidates.append(Candidate(strength, _dev_p1(task, encode)))
    candidates.sort(key=lambda candidate: -candidate.dev_p1)  # of equals, the weaker first
    lost: dict[float, Scores] = {}

    def is_harmless(candidate: Candidate) -> bool:
        move_weights(model, before, after, candidate.strength)
        lost[candidate.strength] = task.lost(guard, _guard(task, encode))
        return not lost[candidate.strength]

    chosen = choose(candidates, is_harmless)
    move_weights(model, before, after, chosen.strength)
    model.cpu()
    return Training(start, added, cut, new_cut, before_p1, candidates, chosen, lost)


def anchor_of(languages: tuple[str, str], known: Sequence[str] | None) -> int | None:
    """The side whose vectors are the labels of both: the one the model knows, if it knows only one."""
    knows = [is_known(language, known) for language in languages]
    return None if knows[0] == knows[1] else knows.index(True)


def _fertility(pairs: Sequence[Pair], start: Start) -> tuple[Fertility, Fertility]:
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    return fertility(left, start.tokenizer), fertility(right, start.tokenizer)


def _dev_p1(task: Task, encode: Encode) -> float:
    """P@1 x 100 of the dev pairs, both ways averaged."""
    return score_bitext(*embed_pairs(task.split.dev, encode))["p1"]


def _guard(task: Task, encode: Encode) -> Guard:
    return guard_scores(each_text_once(encode, bar="what must stay"), task.data, task.model.languages)
