"""Bitext mining by margin: which sentences of two texts translate each other? (Artetxe & Schwenk 2019)

The paper is arXiv:1811.01136, "Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings".

Shapes: N left sentences, M right sentences, U and V different ones, D dims.

Two layouts: aligned files (training/evaluation/bitext.py), whose gold pairs are the lines; and BUCC's, where most
sentences have no translation: `xx-yy.<part>.{xx,yy}` with id<TAB>text and `xx-yy.<part>.gold` with id<TAB>id.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.offline.mining import MARGIN_NEIGHBOURS, Margins, Mined, Neighbours, different, mine, ratio_margins
from training.errors import EvaluationError
from training.evaluation.bitext import Bitext
from training.evaluation.lines import LANGUAGE, by_id, find_file, read_rows
from training.evaluation.vectors import Encode, nearest

GOLD = re.compile(rf"(?P<stem>(?P<left>{LANGUAGE})-(?P<right>{LANGUAGE})\.\w+)\.gold(\.gz)?")

Pairs = set[tuple[int, int]]  # left row, right row
MiningRows = tuple[list[str], list[str], Pairs]  # left texts, right texts, gold pairs of their rows


@dataclass(frozen=True)
class MiningFiles:
    """A mining task on disk, in BUCC's layout."""

    languages: tuple[str, str]
    left_path: Path
    right_path: Path
    gold_path: Path

    def read(self) -> MiningRows:
        """Read left texts, right texts, and gold pairs of their rows.

        Raises: EvaluationError: a malformed line, a repeated id, or a gold id missing from its text.
        """
        left, right = (
            by_id(path, [(row[0], row[1]) for row in read_rows(path, "id<TAB>text")])
            for path in (self.left_path, self.right_path)
        )
        rows = [{identity: row for row, identity in enumerate(side)} for side in (left, right)]
        gold = set()
        for number, ids in enumerate(read_rows(self.gold_path, "left id<TAB>right id"), start=1):
            if any(identity not in known for identity, known in zip(ids, rows, strict=True)):
                raise EvaluationError(f"{self.gold_path} line {number} names an id that the text files do not have")
            gold.add((rows[0][ids[0]], rows[1][ids[1]]))
        return list(left.values()), list(right.values()), gold


def aligned_rows(bitext: Bitext) -> MiningRows:
    """Aligned files as a mining task: the gold pairs are the lines."""
    left, right = bitext.read()
    return left, right, {(row, row) for row in range(len(left))}


def find_mining(folder: Path) -> dict[str, MiningFiles]:
    """The mining tasks of a folder in BUCC's layout: `de-en.training` -> files."""
    found = {}
    for gold_path in sorted(folder.iterdir()):
        if match := GOLD.fullmatch(gold_path.name):
            sides = [find_file(folder / f"{match['stem']}.{match[side]}") for side in ("left", "right")]
            if sides[0] is None or sides[1] is None:
                raise EvaluationError(
                    f"{gold_path} needs its text files beside it: {match['stem']}.{match['left']} and the other side"
                )
            found[match["stem"]] = MiningFiles((match["left"], match["right"]), sides[0], sides[1], gold_path)
    return found


@dataclass(frozen=True)
class TextMargins:
    """Margins of the different sentences of two texts, and each row's place among them."""

    margins: Margins
    left_place_N: NDArray[np.int64]
    right_place_M: NDArray[np.int64]


def best_margins(
    left_ND: NDArray[np.float32], right_MD: NDArray[np.float32], k: int = MARGIN_NEIGHBOURS
) -> TextMargins:
    """Ratio margins over cosine, as `crosslet mine` computes them."""
    left_row_U, left_place_N = different(left_ND)
    right_row_V, right_place_M = different(right_MD)
    left_UD, right_VD = left_ND[left_row_U], right_MD[right_row_V]
    neighbours = nearest(left_UD, right_VD, k), nearest(right_VD, left_UD, k)
    margins = ratio_margins(*(Neighbours(*side) for side in neighbours))
    return TextMargins(margins, left_place_N, right_place_M)


def mine_pairs(text: TextMargins) -> list[Mined]:
    """(margin, left row, right row), best first, each row once."""
    return mine(text.margins, text.left_place_N, text.right_place_M)


def xsim_error(text: TextMargins, gold: Pairs) -> float:
    """Percentage of gold pairs whose left sentence has a wrong best partner by margin (LASER's xsim).

    Differs: a copy of the partner is right.
    """
    partner_N = text.margins.right_of_left_N[text.left_place_N].tolist()
    place_M = text.right_place_M.tolist()
    wrong: int = sum(partner_N[left] != place_M[right] for left, right in gold)
    return 100 * wrong / max(1, len(gold))


def best_threshold(mined: list[Mined], gold: Pairs) -> float:
    """The margin threshold with the best F1; infinite if no mined pair is correct.

    It lies half-way between the last kept margin and the next lower one.

    Args: mined: best first.
    """
    best_f1, threshold, right = 0.0, float("inf"), 0
    for count, (margin, *pair) in enumerate(mined, start=1):
        right += tuple(pair) in gold
        following = mined[count][0] if count < len(mined) else margin
        is_last_of_equals = following < margin or count == len(mined)
        if is_last_of_equals and (f1 := 2 * right / (count + len(gold))) > best_f1:
            best_f1, threshold = f1, (margin + following) / 2
    return threshold


def precision_recall_f1(kept: Pairs, gold: Pairs) -> dict[str, float]:
    """Precision, recall and F1 x 100; 0 if the denominator is 0."""
    right = len(kept & gold)
    return {
        "precision": 100 * right / max(1, len(kept)),
        "recall": 100 * right / max(1, len(gold)),
        "f1": 100 * 2 * right / max(1, len(kept) + len(gold)),
    }


def score_mining(mined: list[Mined], gold: Pairs, *, threshold: float | None = None) -> dict[str, float]:
    """Precision, recall and F1 x 100, and the threshold.

    Args: threshold: the lowest margin to keep; all pairs are scored. None: it is chosen on the left sentences of even
        rows, and those of odd rows are scored; without gold pairs of both there is no score.
    """
    if threshold is None:
        even = {pair for pair in gold if pair[0] % 2 == 0}
        threshold = best_threshold([pair for pair in mined if pair[1] % 2 == 0], even)
        mined, gold = [pair for pair in mined if pair[1] % 2], gold - even
        if not (even and gold):
            return {"threshold": threshold}
    kept = {(left, right) for margin, left, right in mined if margin >= threshold}
    return {**precision_recall_f1(kept, gold), "threshold": threshold}


def evaluate_mining(
    encode: Encode, tasks: Mapping[str, Callable[[], MiningRows]], *, threshold: float | None
) -> dict[str, dict[str, float]]:
    """Metric -> label -> score, without a threshold if no mined pair was correct."""
    scores: dict[str, dict[str, float]] = {}
    for label, read in tasks.items():
        left, right, gold = read()
        text = best_margins(encode(left), encode(right))
        mining = score_mining(mine_pairs(text), gold, threshold=threshold)
        measured = {"xsim": xsim_error(text, gold), **{f"mining_{name}": score for name, score in mining.items()}}
        for metric, score in measured.items():
            if math.isfinite(score):
                scores.setdefault(metric, {})[label] = round(score, 4 if metric == "mining_threshold" else 2)
    return scores
