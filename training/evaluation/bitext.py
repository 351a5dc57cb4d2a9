"""Bitext retrieval: is a sentence's translation its nearest neighbour? (Tatoeba: Artetxe & Schwenk 2019)

Three layouts, each plain or .gz; line i of one side translates line i of the other:
    <name>.<aaa>-<bbb>.<aaa> + <name>.<aaa>-<bbb>.<bbb>   (LASER's Tatoeba files)
    <aa>-<bb>/<name>.tsv                                  left<TAB>right
    <part>.<aa>.txt + <part>.en.txt                       any number of languages, each against English (FLORES);
                                                          `dev` is read only if it is the only part

Shapes: N aligned sentences, D dims.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.errors import EvaluationError
from training.evaluation.lines import LANGUAGE, PAIR, find_file, read_lines, read_rows
from training.evaluation.vectors import Encode, cosine_chunks, each_text_once, nearest, paired_cosines

# ISO 639-1 -> the code in LASER's Tatoeba file names
TATOEBA_CODES = {
    "af": "afr", "am": "amh", "ar": "ara", "az": "aze", "be": "bel", "bg": "bul", "bn": "ben", "br": "bre",
    "bs": "bos", "ca": "cat", "cs": "ces", "cy": "cym", "da": "dan", "de": "deu", "el": "ell", "en": "eng",
    "eo": "epo", "es": "spa", "et": "est", "eu": "eus", "fa": "pes", "fi": "fin", "fo": "fao", "fr": "fra",
    "fy": "fry", "ga": "gle", "gd": "gla", "gl": "glg", "he": "heb", "hi": "hin", "hr": "hrv", "hu": "hun",
    "hy": "hye", "ia": "ina", "id": "ind", "io": "ido", "is": "isl", "it": "ita", "ja": "jpn", "jv": "jav",
    "ka": "kat", "kk": "kaz", "km": "khm", "ko": "kor", "ku": "kur", "la": "lat", "lt": "lit", "lv": "lvs",
    "mk": "mkd", "ml": "mal", "mn": "mon", "mr": "mar", "ms": "zsm", "nb": "nob", "nl": "nld", "nn": "nno",
    "oc": "oci", "pl": "pol", "pt": "por", "ro": "ron", "ru": "rus", "sk": "slk", "sl": "slv", "sq": "sqi",
    "sr": "srp", "sv": "swe", "sw": "swh", "ta": "tam", "te": "tel", "th": "tha", "tk": "tuk", "tl": "tgl",
    "tr": "tur", "tt": "tat", "ug": "uig", "uk": "ukr", "ur": "urd", "uz": "uzb", "vi": "vie", "xh": "xho",
    "yi": "yid", "zh": "cmn",
}  # fmt: skip
OUR_CODES = {theirs: ours for ours, theirs in TATOEBA_CODES.items()}

ALIGNED = re.compile(rf"(?P<stem>.+\.(?P<left>{LANGUAGE})-(?P<right>{LANGUAGE}))\.(?P=left)(\.gz)?")

PARALLEL = re.compile(rf"(?P<part>\w+)\.(?P<language>{LANGUAGE})\.txt(\.gz)?")
LONGEST_CELL = 90  # characters


@dataclass(frozen=True)
class Bitext:
    """Aligned sentences on disk: two files, or one file with two columns."""

    languages: tuple[str, str]
    left_path: Path
    right_path: Path | None = None  # None: `left_path` holds both sides

    def read(self) -> tuple[list[str], list[str]]:
        """Read both sides, aligned by line.

        Raises: EvaluationError: they differ in length, or a line breaks the layout.
        """
        if self.right_path is None:
            left, right = zip(*read_rows(self.left_path, "left<TAB>right"), strict=True)
            return list(left), list(right)
        sides = read_lines(self.left_path), read_lines(self.right_path)
        if len(sides[0]) != len(sides[1]):
            raise EvaluationError(
                f"{self.left_path} has {len(sides[0])} lines, but {self.right_path} has {len(sides[1])}"
            )
        return sides


def find_bitext(folder: Path) -> dict[str, Bitext]:
    """A folder's aligned files by label: the language (against English), the pair, or the name of a .tsv."""
    sets = {}
    for path in sorted(folder.iterdir()):
        if match := ALIGNED.fullmatch(path.name):
            right_path = find_file(folder / f"{match['stem']}.{match['right']}")
            left, right = (OUR_CODES.get(match[side], match[side]) for side in ("left", "right"))
            if right_path and left != right:
                sets[left if right == "en" else f"{left}-{right}"] = Bitext((left, right), path, right_path)
        elif re.fullmatch(PAIR, folder.name) and path.name.removesuffix(".gz").endswith(".tsv"):
            left, right = folder.name.split("-")
            sets[path.name.partition(".")[0]] = Bitext((left, right), path)
    return dict(sorted((sets | _against_english(folder)).items()))


def _against_english(folder: Path) -> dict[str, Bitext]:
    """Files of the FLORES layout by language, or by language and part (`de.devtest`) if there are several parts."""
    matches = [match for path in sorted(folder.iterdir()) if (match := PARALLEL.fullmatch(path.name))]
    parts = {match["part"] for match in matches if match["language"] == "en"}
    parts = parts - {"dev"} or parts
    return {
        match["language"] if len(parts) == 1 else f"{match['language']}.{match['part']}": Bitext(
            (match["language"], "en"), folder / match.string, find_file(folder / f"{match['part']}.en.txt")
        )
        for match in matches
        if match["part"] in parts and match["language"] != "en"
    }


def ranks_of_translations(left_ND: NDArray[np.float32], right_ND: NDArray[np.float32]) -> NDArray[np.int64]:
    """For each left row i: how many right rows rank above right row i, by cosine. Ties rank by index.

    Memory holds one block of scores, not N x N.
    """
    ranks = []
    index_N = np.arange(len(right_ND))
    for start, scores_CN in cosine_chunks(left_ND, right_ND):
        own_C1 = index_N[start : start + len(scores_CN), None]
        own_score_C1 = np.take_along_axis(scores_CN, own_C1, axis=1)
        before_CN = (scores_CN > own_score_C1) | ((scores_CN == own_score_C1) & (index_N < own_C1))
        ranks.append(before_CN.sum(axis=1))
    return np.concatenate(ranks)


def precision_at(k: int, ranks_N: NDArray[np.int64]) -> float:
    """Percentage of sentences whose translation is among the k nearest."""
    return float((ranks_N < k).mean()) * 100


def score_bitext(left_ND: NDArray[np.float32], right_ND: NDArray[np.float32]) -> dict[str, float]:
    """P@1 and P@5 x 100: left to right, right to left, and their mean."""
    there_N, back_N = ranks_of_translations(left_ND, right_ND), ranks_of_translations(right_ND, left_ND)
    scores: dict[str, float] = {}
    for k in (1, 5):
        there, back = precision_at(k, there_N), precision_at(k, back_N)
        scores |= {f"p{k}": (there + back) / 2, f"p{k}_forward": there, f"p{k}_backward": back}
    return {name: round(score, 2) for name, score in scores.items()}


def evaluate_bitext(
    encode: Encode, sets: Mapping[str, Bitext], *, rows: int | None = None
) -> dict[str, dict[str, float]]:
    """Metric -> label -> score, on the first `rows` rows of each set; None: all."""
    scores: dict[str, dict[str, float]] = {}
    for label, bitext in sets.items():
        left, right = bitext.read()
        for metric, score in score_bitext(encode(left[:rows]), encode(right[:rows])).items():
            scores.setdefault(metric, {})[label] = score
    return scores


def evaluate_tatoeba(
    encode: Encode, folder: Path, languages: list[str], *, rows: int | None = None
) -> dict[str, float]:
    """P@1 x 100, mean of both directions, for each language that has files in `folder`."""
    sets = find_bitext(folder) if folder.is_dir() else {}
    chosen = {language: sets[language] for language in languages if language in sets}
    return evaluate_bitext(encode, chosen, rows=rows).get("p1", {})


@dataclass(frozen=True)
class Failure:
    """A sentence, its translation, and the nearer sentence, with its cosine to both."""

    label: str
    text: str
    translation: str
    nearer: str
    cosine: float
    nearer_cosine: float


def worst_failures(encode: Encode, sets: Mapping[str, Bitext], count: int) -> list[Failure]:
    """The `count` worst errors of each set: the largest gaps between the cosines of the nearer sentence and its own."""
    encode = each_text_once(encode)
    failures = []
    for label, bitext in sets.items():
        left, right = bitext.read()
        left_ND, right_ND = encode(left), encode(right)
        cosine_N = paired_cosines(left_ND, right_ND)
        nearest_N1, index_N1 = nearest(left_ND, right_ND, 1)
        for i in np.argsort(cosine_N - nearest_N1[:, 0], kind="stable")[:count].tolist():
            nearer = right[index_N1[i, 0]]
            if nearer != right[i]:
                cosines = float(cosine_N[i]), float(nearest_N1[i, 0])
                failures.append(Failure(label, left[i], right[i], nearer, *cosines))
    return failures


def failures_markdown(failures: list[Failure]) -> str:
    """A table with one row a failure."""
    lines = ["| | sentence | its translation | cosine | what was nearer | cosine |", "|---|---|---|---:|---|---:|"]
    for row in failures:
        text, translation, nearer = map(_cell, (row.text, row.translation, row.nearer))
        cells = [row.label, text, translation, f"{row.cosine:.2f}", nearer, f"{row.nearer_cosine:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    cut = text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
    return cut.replace("|", "\\|")
