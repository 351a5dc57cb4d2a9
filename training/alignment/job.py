"""Pairs and a model to a head and what it does, top to bottom. Knows the order of the steps; writes no file.

Shapes: N pairs, D dims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.alignment.candidates import Candidate, Method, choose, make_candidates, procrustes, ridge
from training.alignment.layers import Means, Vectors
from training.alignment.pairs import Pair, PairFile, Split, split_file
from training.alignment.probe import ProbeScores, embed_probe, losses_of, probe_scores
from training.alignment.trainer import Epoch, Pairs, Settings
from training.alignment.vectors import Known
from training.errors import AlignmentError
from training.evaluation.bitext import score_bitext
from training.evaluation.encoders import Model
from training.evaluation.sts import evaluate_sts, find_sts, languages_of
from training.evaluation.vectors import Encode, unit_rows

Sides = tuple[Vectors, Vectors]


@dataclass(frozen=True)
class Task:
    """What is aligned.  test: None: part of the pairs is held out.  data: folder with stsb or eval/stsb, or None."""

    model: Model
    pairs: PairFile
    test: PairFile | None = None
    data: Path | None = None
    method: Method = "best"
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Outcome:
    """The chosen head and what was measured.

    scores: of the test, by what was done to its vectors.  probe, sts: by language and by pair, before and after.
    lost: language or pair -> points lost, where they are more than allowed.  before, after: unit vectors of both sides
    of the test, for the plot.
    """

    split: Split
    candidates: list[Candidate]
    chosen: Candidate
    epochs: list[Epoch]
    scores: dict[str, ProbeScores]
    probe: tuple[ProbeScores, ProbeScores]
    sts: tuple[ProbeScores, ProbeScores]
    lost: ProbeScores
    before: Sides
    after: Sides


def align(task: Task, progress: Callable[[Epoch], None] = lambda epoch: None) -> Outcome:
    """Encode once, train, choose the best head that harms no language, measure.

    Raises: AlignmentError: see `split_file`.
    """
    split = split_file(task.pairs, task.test, seed=task.settings.seed)
    known = Known(task.model.encode)
    known.learn([text for part in (split.train, split.dev, split.test) for pair in part for text in pair])
    train, dev, test = (pairs_of(part, known) for part in (split.train, split.dev, split.test))
    epochs: list[Epoch] = []

    def seen(epoch: Epoch) -> None:
        epochs.append(epoch)
        progress(epoch)

    candidates = make_candidates(train, dev, task.settings, task.method, seen)
    probe = embed_probe(known, task.model.languages)

    def sts(head: Callable[[Vectors], Vectors]) -> ProbeScores:
        return sts_scores(lambda texts: head(known(texts)), task.data, task.model.languages)

    probe_before, sts_before = probe_scores(probe), sts(unit_rows)

    def lost(head: Candidate) -> ProbeScores:
        """Of the probe first: it costs less than STS."""
        return losses_of(probe_before, probe_scores(probe, head)) or losses_of(sts_before, sts(head))

    chosen, _ = choose(candidates, lambda head: not lost(head))
    sides = test.source_ND, test.target_ND
    return Outcome(
        split=split,
        candidates=candidates,
        chosen=chosen,
        epochs=epochs,
        scores=scores_of_test(chosen, train, test),
        probe=(probe_before, probe_scores(probe, chosen)),
        sts=(sts_before, sts(chosen)),
        lost=lost(chosen),
        before=(unit_rows(sides[0]), unit_rows(sides[1])),
        after=(chosen(sides[0]), chosen(sides[1])),
    )


def pairs_of(texts: list[Pair], known: Known) -> Pairs:
    """Pairs with their vectors."""
    left, right = ([pair[side] for pair in texts] for side in (0, 1))
    return Pairs.of(known(left), known(right), texts)


def scores_of_test(chosen: Candidate, train: Pairs, test: Pairs) -> dict[str, ProbeScores]:
    """P@1 and P@5 x 100 of the test, before and after, each with the same normalisations; means are those of `train`.

    Rows for one side alone are rivals that cannot be served.
    """
    trained, tested = _unit(train), _unit(test)
    mapped = tuple(map(chosen.mapped, trained)), tuple(map(chosen.mapped, tested))
    rows: dict[str, Sides] = {"before: as served": tested}
    for name, (fitted, sides) in {"before": (trained, tested), "after": mapped}.items():
        rows[f"{name}: less one mean"] = Means.joint(*fitted)(*sides)
        rows[f"{name}: less each language's mean"] = Means.by_language(*fitted)(*sides)
    for name, fit in {"orthogonal Procrustes": procrustes, "ridge": ridge}.items():
        layer = fit(*trained)
        fitted, sides = (layer(trained[0]), trained[1]), (layer(tested[0]), tested[1])
        rows[f"{name}, one side: less each language's mean"] = Means.by_language(*fitted)(*sides)
    return {name: score_bitext(*sides) for name, sides in rows.items()}


def sts_scores(encode: Encode, data: Path | None, languages: Sequence[str] | None) -> ProbeScores:
    """Spearman x 100 of the sets under `data` in these languages; {} without data.

    Raises: AlignmentError: `data` has no such sets.
    """
    if data is None:
        return {}
    folder = next((path for path in (data / "eval/stsb/dev", data / "stsb/dev") if path.is_dir()), None)
    if folder is None:
        raise AlignmentError(f"{data} has no stsb/dev and no eval/stsb/dev to measure similarity on (--data)")
    pairs = [pair for pair in find_sts(folder) if languages is None or set(languages_of(pair)) <= set(languages)]
    return evaluate_sts(encode, folder, pairs, rows=300)


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> ProbeScores:
    """What each gained."""
    return {name: round(after[name] - before[name], 2) for name in before}


def _unit(pairs: Pairs) -> Sides:
    return unit_rows(pairs.source_ND), unit_rows(pairs.target_ND)
