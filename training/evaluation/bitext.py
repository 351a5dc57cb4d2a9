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
from training.evaluation.vectors import Encode, cosine_chunks, each_text_once

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
LONGEST_SHOWN = 90  # characters


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
    found = {}
    for path in sorted(folder.iterdir()):
        if match := ALIGNED.fullmatch(path.name):
            right_path = find_file(folder / f"{match['stem']}.{match['right']}")
            left, right = (OUR_CODES.get(match[side], match[side]) for side in ("left", "right"))
            if right_path and left != right:
                found[left if right == "en" else f"{left}-{right}"] = Bitext((left, right), path, right_path)
        elif re.fullmatch(PAIR, folder.name) and path.name.removesuffix(".gz").endswith(".tsv"):
            left, right = folder.name.split("-")
            found[path.name.partition(".")[0]] = Bitext((left, right), path)
    return dict(sorted((found | _against_english(folder)).items()))


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
    encode: Encode, found: Mapping[str, Bitext], *, rows: int | None = None
) -> dict[str, dict[str, float]]:
    """Metric -> label -> score, on the first `rows` rows of each set; None: all."""
    scores: dict[str, dict[str, float]] = {}
    for label, bitext in found.items():
        left, right = bitext.read()
        for metric, score in score_bitext(encode(left[:rows]), encode(right[:rows])).items():
            scores.setdefault(metric, {})[label] = score
    return scores


def evaluate_tatoeba(
    encode: Encode, folder: Path, languages: list[str], *, rows: int | None = None
) -> dict[str, float]:
    """P@1 x 100, mean of both directions, for each language that has files in `folder`."""
    found = find_bitext(folder) if folder.is_dir() else {}
    chosen = {language: found[language] for language in languages if language in found}
    return evaluate_bitext(encode, chosen, rows=rows).get("p1", {})


@dataclass(frozen=True)
class Failure:
    """A sentence, its translation, and the sentence that was nearer."""

    label: str
    text: str
    translation: str
    found: str
    cosine: float  # between text and translation
    found_cosine: float


def worst_failures(encode: Encode, found: Mapping[str, Bitext], count: int) -> list[Failure]:
    """The `count` worst errors of each set: those with the largest gap in cosine to the sentence found."""
    encode = each_text_once(encode)
    failures = []
    for label, bitext in found.items():
        left, right = bitext.read()
        failures += _worst(label, left, right, encode(left), encode(right), count)
    return failures


def _worst(
    label: str,
    left: list[str],
    right: list[str],
    left_ND: NDArray[np.float32],
    right_ND: NDArray[np.float32],
    count: int,
) -> list[Failure]:
    cosine_N, nearest_N = np.empty(len(left)), np.empty(len(left), dtype=np.int64)
    own_N = np.empty(len(left))
    for start, cosine_CN in cosine_chunks(left_ND, right_ND):
        chunk = np.arange(start, start + len(cosine_CN))
        nearest_N[chunk] = cosine_CN.argmax(axis=1)
        cosine_N[chunk] = cosine_CN.max(axis=1)
        own_N[chunk] = cosine_CN[chunk - start, chunk]
    worst = np.argsort(own_N - cosine_N, kind="stable")[:count]
    return [
        Failure(label, left[i], right[i], right[nearest_N[i]], float(own_N[i]), float(cosine_N[i]))
        for i in worst.tolist()
        if right[nearest_N[i]] != right[i]
    ]


def failures_markdown(failures: list[Failure]) -> str:
    """A table with one row a failure."""
    lines = ["| | sentence | its translation | cosine | what was nearer | cosine |", "|---|---|---|---:|---|---:|"]
    lines += [
        f"| {one.label} | {_cell(one.text)} | {_cell(one.translation)} | {one.cosine:.2f} | {_cell(one.found)} "
        f"| {one.found_cosine:.2f} |"
        for one in failures
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
    return shown.replace("|", "\\|")
