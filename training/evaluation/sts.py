"""Semantic textual similarity: Spearman correlation of cosine and human score, per language pair.

Four layouts, each plain or .gz:
    xx-yy.tsv                                              score<TAB>sentence1<TAB>sentence2
    <part>.xx-yy.tsv                                       the same; parts named train or trial are skipped (JSTS)
    STS.xx-yy.txt                                          sentence1<TAB>sentence2<TAB>score (STS2017-extended)
    STS.input.track1.xx-yy.txt + STS.gs.track1.xx-yy.txt   sentence1<TAB>sentence2, and one score a line (SemEval-2017)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from training.config.run import STSB_DEV
from training.errors import EvaluationError
from training.evaluation.lines import PAIR, find_file, parse_lines, parse_score, read_lines, read_rows, split_columns
from training.evaluation.vectors import Encode, paired_cosines

logger = logging.getLogger(__name__)

StsRows = tuple[list[float], list[str], list[str]]  # gold scores, left sentences, right sentences

PLAIN = re.compile(rf"(?P<pair>{PAIR})\.tsv(\.gz)?")
PART = re.compile(rf"(?P<part>\w+(\.\w+)*)\.(?P<pair>{PAIR})\.tsv(\.gz)?")
EXTENDED = re.compile(rf"STS\.(?P<pair>{PAIR})\.txt(\.gz)?")
SEMEVAL = re.compile(rf"STS\.input\.(track(?P<track>\w+)\.)?(?P<pair>{PAIR})\.txt(\.gz)?")


def read_sts(path: Path, layout: str = "score<TAB>sentence1<TAB>sentence2") -> StsRows:
    """Gold scores and both sides of a file; `layout` names its columns.

    Raises: EvaluationError: names the file and the malformed line.
    """
    names = layout.split("<TAB>")

    def parse(line: str) -> tuple[float, str, str]:
        row = dict(zip(names, split_columns(line, layout), strict=True))
        return parse_score(row["score"]), row["sentence1"], row["sentence2"]

    gold, left, right = zip(*parse_lines(path, parse, layout), strict=True)
    return list(gold), list(left), list(right)


def read_sts_semeval(inputs: Path, gold_name: str) -> StsRows:
    """Like `read_sts`, for a SemEval file with its gold scores in a second file, in its folder or a sibling folder.

    Raises: EvaluationError: there is no gold file, or it has another number of lines.
    """
    folders = [inputs.parent, *sorted(path for path in inputs.parent.parent.iterdir() if path.is_dir())]
    gold_path = next((path for folder in folders if (path := find_file(folder / gold_name))), None)
    if gold_path is None:
        raise EvaluationError(f"{inputs} has no gold file: {gold_name} must be in its folder or a sibling folder")
    rows, gold = read_rows(inputs, "sentence1<TAB>sentence2"), parse_lines(gold_path, parse_score, "one score")
    if len(rows) != len(gold):
        raise EvaluationError(f"{inputs} has {len(rows)} lines, but its gold file {gold_path} has {len(gold)}")
    left, right = zip(*rows, strict=True)
    return gold, list(left), list(right)


def find_sts(folder: Path) -> dict[str, Callable[[], StsRows]]:
    """The STS files of a folder: pair -> a function that reads it. Empty if there is no such folder.

    A second file of a pair is named by its track (`es-en.4b`), a part by its name (`ja-ja.valid`). A file whose first
    column is not a number is skipped.
    """
    readers: dict[str, Callable[[], StsRows]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if match := PLAIN.fullmatch(path.name):
            readers[match["pair"]] = partial(read_sts, path)
        elif (match := PART.fullmatch(path.name)) and _is_scored_part(path, match["part"]):
            readers[f"{match['pair']}.{match['part']}"] = partial(read_sts, path)
        elif match := EXTENDED.fullmatch(path.name):
            readers[match["pair"]] = partial(read_sts, path, "sentence1<TAB>sentence2<TAB>score")
        elif match := SEMEVAL.fullmatch(path.name):
            label = match["pair"] if match["pair"] not in readers else f"{match['pair']}.{match['track']}"
            gold_name = path.name.removesuffix(".gz").replace("STS.input.", "STS.gs.", 1)
            readers[label] = partial(read_sts_semeval, path, gold_name)
    return readers


def is_monolingual(pair: str) -> bool:
    """Whether both sides are in one language: `de-de`."""
    left, right = languages_of(pair)
    return left == right


def languages_of(pair: str) -> tuple[str, str]:
    """Both languages of a pair, as `find_sts` names it."""
    left, _, right = pair.partition(".")[0].partition("-")
    return left, right


def spearman_of_cosines(left_ND: NDArray[np.float32], right_ND: NDArray[np.float32], gold_N: list[float]) -> float:
    """Spearman's rho x 100 between row-wise cosine and gold, which `is_rankable`; 0 if every cosine is the same."""
    cosine_N = paired_cosines(left_ND, right_ND)
    if np.ptp(cosine_N) == 0:
        return 0.0
    return float(spearmanr(cosine_N, gold_N).statistic) * 100


def evaluate_sts(encode: Encode, folder: Path, pairs: Iterable[str], *, rows: int | None = None) -> dict[str, float]:
    """Score each of `pairs` that has a file in `folder`, on at most `rows` evenly spaced rows; None: all.

    A file without two different scores is left out with a warning.
    """
    readers = find_sts(folder)
    scores = {}
    for pair in pairs:
        if pair in readers:
            gold, left, right = spread(readers[pair](), rows)
            if not is_rankable(gold, where=f"{folder}: {pair}"):
                continue
            scores[pair] = round(spearman_of_cosines(encode(left), encode(right), gold), 2)
    return scores


def is_rankable(gold: list[float], *, where: str) -> bool:
    """Whether there are two different scores, as a rank correlation needs; warns if there are not."""
    if len(set(gold)) > 1:
        return True
    logger.warning("%s is left out: it has %d rows and no two different scores", where, len(gold))
    return False


def spread(rows: StsRows, count: int | None) -> StsRows:
    """At most `count` rows, evenly spaced over the file's parts (captions, forums, news)."""
    size = len(rows[0])
    if count is None or count >= size:
        return rows
    chosen = np.linspace(0, size - 1, count).round().astype(int)
    gold, left, right = ([column[index] for index in chosen] for column in rows)
    return gold, left, right


def _is_scored_part(path: Path, part: str) -> bool:
    if {"train", "trial"} & set(part.split(".")):
        return False
    try:
        parse_score(read_lines(path)[0].split("\t")[0])
    except ValueError:
        return False
    return True


def has_dev(data: Path, languages: list[str], dev: str = STSB_DEV) -> bool:
    """Whether `data`/eval/`dev` has English against one of the languages."""
    wanted = {pair for language in languages for pair in (f"en-{language}", f"{language}-en")}
    return bool(wanted & find_sts(data / "eval" / dev).keys())


class DevScore:
    """Scores encoders on the same dev sentences, by language pair.

    Args:
        dev: folder in `data`/eval, in a layout of `training.evaluation.sts`.
        rows: at most this many rows a pair, evenly spaced over the file's parts (captions, forums, news); None: all.
    Raises: EvaluationError: the folder has no dev file of English against any of the languages with two scores.
    """

    def __init__(self, data: Path, languages: list[str], *, dev: str = STSB_DEV, rows: int | None = 150) -> None:
        folder = data / "eval" / dev
        files = find_sts(folder)
        readers = {
            f"en-{language}": files[pair]
            for language in languages
            for pair in (f"en-{language}", f"{language}-en")  # STS2017 names some pairs en-xx, others xx-en
            if pair in files
        }
        if not readers:
            raise EvaluationError(
                f"{folder} has no en-<language>.tsv for {', '.join(languages)}: nothing to validate on; add a file, "
                "or remove validate_pairs from the stages"
            )
        chosen = {pair: spread(read(), rows) for pair, read in readers.items()}
        self.pairs = {pair: sts for pair, sts in chosen.items() if is_rankable(sts[0], where=f"{folder}: {pair}")}
        if not self.pairs:
            raise EvaluationError(f"{folder} has no file with two different scores: nothing to validate on")

    def by_pair(self, encode: Encode) -> dict[str, float]:
        """Spearman x 100 of an encoder by language pair."""
        texts = sorted({text for _, left, right in self.pairs.values() for text in (*left, *right)})
        vectors_ND = encode(texts)  # in one call: pairs share English texts, and similar lengths batch together
        row = {text: index for index, text in enumerate(texts)}
        return {
            pair: spearman_of_cosines(
                vectors_ND[[row[text] for text in left]], vectors_ND[[row[text] for text in right]], gold
            )
            for pair, (gold, left, right) in self.pairs.items()
        }
