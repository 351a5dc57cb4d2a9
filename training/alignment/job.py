"""From pairs and a model to a chosen head and its scores. Writes no file.

Shapes: N pairs, D dims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from training.alignment.candidates import Candidate, Method, choose, make_candidates, procrustes
from training.alignment.layers import Means, Sides, Vectors
from training.alignment.pairs import Pair
from training.alignment.scores import (
    Guard,
    PairTask,
    Scores,
    ServedScores,
    guard_scores,
    hits_of,
    is_gain,
    lost_beyond,
)
from training.alignment.trainer import Epoch, Pairs, Progress, Settings
from training.evaluation.bitext import score_bitext
from training.evaluation.vectors import Encode, each_text_once, unit_rows

BEFORE, AFTER = "before: as served", "after: less one mean"  # rows of what is served


@dataclass(frozen=True)
class Task(PairTask):
    """A model, pairs, and how to make a head."""

    method: Method = "best"
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Outcome:
    """The chosen head and its scores.

    guards, lost: of each candidate, by its name; what it loses beyond what is allowed.
    dev_p1: P@1 x 100 of dev without a head.  is_gain: whether the chosen has more, by more than chance.
    rows: P@1 and P@5 of the test pairs by how their vectors were changed.
    """

    candidates: list[Candidate]
    guards: dict[str, Guard]
    lost: dict[str, Scores]
    chosen: Candidate
    dev_p1: float
    is_gain: bool
    epochs: tuple[Epoch, ...]
    rows: dict[str, Scores]
    before: ServedScores
    after: ServedScores

    @property
    def refusal(self) -> str | None:
        """Why the head is not worth writing; None: it is."""
        if lost := self.lost[self.chosen.name]:
            return lost_beyond(lost)
        if not self.is_gain:
            return f"nothing gained on dev beyond chance: P@1 {self.dev_p1:.1f} before, {self.chosen.dev_p1:.1f} after"
        return None


def align(task: Task, progress: Progress = lambda epoch: None) -> Outcome:
    """Encode each text once, train, choose the best head that harms no language, measure.

    Raises: AlignmentError: no STS set where one is asked for.  EvaluationError: a vector is not finite.
    """
    split, languages = task.split, task.model.languages
    encode = each_text_once(task.model.encode, bar="vectors")
    encode([text for part in (split.train, split.dev, split.test) for pair in part for text in pair])
    train, dev, test = (vectors_of(part, encode) for part in (split.train, split.dev, split.test))
    candidates, epochs = make_candidates(train, dev, task.settings, task.method, progress)

    def guard_of(head: Callable[[Vectors], Vectors]) -> Guard:
        return guard_scores(lambda texts: head(encode(texts)), task.data, languages)

    guard_before, guards = guard_of(unit_rows), {head.name: guard_of(head) for head in candidates}
    lost = {name: task.lost(guard_before, guard) for name, guard in guards.items()}
    chosen = choose(candidates, lambda head: not lost[head.name])
    rows = score_test(chosen, train, test)
    found_before, found_after = hits_of(dev.sides), hits_of(_each_side(chosen, dev.sides))
    return Outcome(
        candidates,
        guards,
        lost,
        chosen,
        dev_p1=round(float(found_before.mean()) * 100, 2),
        is_gain=is_gain(found_before, found_after),
        epochs=epochs,
        rows=rows,
        before=ServedScores(rows[BEFORE], guard_before, test.sides),
        after=ServedScores(rows[AFTER], guards[chosen.name], _each_side(chosen, test.sides)),
    )


def vectors_of(pairs: Sequence[Pair], encode: Encode) -> Pairs:
    """Pairs with their vectors."""
    left, right = (encode([pair[side] for pair in pairs]) for side in (0, 1))
    return Pairs.of(left, right, pairs)


def score_test(chosen: Candidate, train: Pairs, test: Pairs) -> dict[str, Scores]:
    """P@1 and P@5 x 100 of the test, before and after, each with the same normalisations; means are those of `train`.

    The row for one side alone is a rival that cannot be served.
    """
    fitted, tested = train.sides, test.sides
    mapped = _each_side(chosen.mapped, fitted), _each_side(chosen.mapped, tested)
    rows: dict[str, Sides] = {BEFORE: tested}
    for name, (own, sides) in {"before": (fitted, tested), "after": mapped}.items():
        rows[f"{name}: less one mean"] = Means.joint(*own)(*sides)
        rows[f"{name}: less each language's mean"] = Means.by_language(*own)(*sides)
    rotation = procrustes(*fitted)
    means = Means.by_language(rotation(fitted[0]), fitted[1])
    rows["orthogonal Procrustes, one side: less each language's mean"] = means(rotation(tested[0]), tested[1])
    return {name: score_bitext(*sides) for name, sides in rows.items()}


def _each_side(head: Callable[[Vectors], Vectors], sides: Sides) -> Sides:
    return head(sides[0]), head(sides[1])
