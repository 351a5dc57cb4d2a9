"""Writes service/documents/language_table.py: n-grams of twelve languages in Latin script, with weights.

python scripts/language_table.py DATA > service/documents/language_table.py     # in the development environment
python scripts/language_table.py DATA --measure       # what it tells of questions that it was not made from

DATA has parallel/<source>/en-<language>.tsv.gz and eval/. A multinomial logistic regression over n-grams of words is
fitted to parts of lines, and the n-grams that matter most are kept.

B lines, F n-grams, K languages
"""

import csv
import gzip
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service.documents.language import ALPHABET, LATIN, language_of, n_grams

HELD_OUT = "tatoeba_challenge_test"
LINES_A_SOURCE, LINES, KEPT, CONSIDERED = 400, 7000, 1000, 4500
LEVELS, LARGEST = len(ALPHABET), 4.0
HEAD = '''"""N-grams of languages in Latin script, each with a weight a language. Knows nothing else.

Written by `scripts/language_table.py`, which says how, from parallel text whose licences allow commercial use.
"""
# ruff: noqa: RUF001 - the dotless i is Turkish

TABLE = (
'''

QUESTION_MARKS = ("?", "\uff1f", "\u061f")

Weights = npt.NDArray[np.float64]


def lines_of(language: str, data: Path, rng: random.Random) -> list[str]:
    """Return some lines of every source."""
    column, other = (0, "de") if language == "en" else (1, language)
    lines: list[str] = []
    for path in sorted((data / "parallel").glob(f"*/en-{other}.tsv.gz")):
        if path.parent.name != HELD_OUT:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                pairs = [line.rstrip("\n").split("\t") for _, line in zip(range(20_000), file, strict=False)]
            lines += [pair[column] for pair in rng.sample(pairs, min(LINES_A_SOURCE, len(pairs)))]
    rng.shuffle(lines)
    return lines[:LINES]


def part_of(line: str, rng: random.Random) -> str:
    """Return a few words in a row: queries are short."""
    words = line.split()
    count = rng.choice([2, 3, 4, 5, 6, 8, 12])
    start = rng.randrange(max(1, len(words) - count + 1))
    return " ".join(words[start : start + count])


def counted(texts: Sequence[str], place_of: dict[str, int]) -> scipy.sparse.csr_matrix:
    """Count the known n-grams of each text."""
    cells = [(row, place_of[gram]) for row, text in enumerate(texts) for gram in n_grams(text) if gram in place_of]
    rows, columns = np.array(cells).T
    return scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(texts), len(place_of)))


def fitted(count_BF: scipy.sparse.csr_matrix, label_B: npt.NDArray[np.int64], weight_FK: Weights) -> Weights:
    """Fit a logistic regression by Adam, a step over all lines."""
    wanted_BK = np.eye(len(LATIN))[label_B]
    mean_FK, square_FK = np.zeros_like(weight_FK), np.zeros_like(weight_FK)
    for step in range(1, 121):
        score_BK = count_BF @ weight_FK
        likely_BK = np.exp(score_BK - score_BK.max(axis=1, keepdims=True))
        likely_BK /= likely_BK.sum(axis=1, keepdims=True)
        gradient_FK = count_BF.T @ (likely_BK - wanted_BK) / len(label_B) + 1e-5 * weight_FK
        mean_FK = 0.9 * mean_FK + 0.1 * gradient_FK
        square_FK = 0.99 * square_FK + 0.01 * gradient_FK**2
        weight_FK = weight_FK - 0.05 * (mean_FK / (1 - 0.9**step)) / (np.sqrt(square_FK / (1 - 0.99**step)) + 1e-8)
    return weight_FK


def entries(data: Path) -> Iterator[str]:
    """Yield the n-grams of the table, each followed by its weights."""
    rng = random.Random(5)  # noqa: S311 - not for security
    texts: list[str] = []
    labels: list[int] = []
    for label, language in enumerate(LATIN):
        lines = lines_of(language, data, rng)
        texts += [part_of(line, rng) for line in lines]
        labels += [label] * len(lines)
    label_B = np.array(labels)
    frequent = Counter(gram for text in texts for gram in n_grams(text)).most_common(CONSIDERED)
    grams = sorted(gram for gram, _ in frequent)
    count_BF = counted(texts, {gram: place for place, gram in enumerate(grams)})
    weight_FK = fitted(count_BF, label_B, np.zeros((len(grams), len(LATIN))))
    matter_F = np.asarray(count_BF.sum(axis=0)).ravel() * np.ptp(weight_FK, axis=1)
    kept = np.sort(np.argsort(-matter_F)[:KEPT])
    weight_FK = fitted(count_BF[:, kept], label_B, weight_FK[kept])
    weight_FK -= weight_FK.mean(axis=1, keepdims=True)
    level_FK = np.clip(np.round(weight_FK / LARGEST * (LEVELS // 2 - 1)) + LEVELS // 2, 0, LEVELS - 1).astype(int)
    for place, levels in zip(kept, level_FK, strict=True):
        yield grams[place] + "".join(ALPHABET[level] for level in levels)


def questions(data: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the set, the language and the questions that measure the table."""
    for language in (*LATIN, "ar", "hi", "ja", "ko", "ru", "zh", "zh_Hant"):
        column, other = (0, "de") if language == "en" else (1, language)
        path = data / "parallel" / HELD_OUT / f"en-{other}.tsv.gz"
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                lines = [line.rstrip("\n").split("\t")[column] for line in file]
            yield "tatoeba", language, [line for line in lines if line.rstrip().endswith(QUESTION_MARKS)][:1000]
        path = data / f"eval/xsid/test.en-{language}.tsv"
        if path.is_file():
            yield "xsid", language, [row[-1] for row in csv.reader(path.open(), delimiter="\t", quoting=csv.QUOTE_NONE)]
        path = data / f"eval/xquad/queries.{language}.tsv.gz"
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                yield "xquad", language, [line.rstrip("\n").split("\t")[-1] for line in file]


def main() -> int:
    """Write the table, or measure the one that is there."""
    data = Path(sys.argv[1])
    if "--measure" not in sys.argv:
        text, line = HEAD, ""
        for entry in entries(data):
            if len(line) + len(entry) > 110:
                text, line = f'{text}    "{line}"\n', ""
            line += f"{entry} "
        sys.stdout.write(f'{text}    "{line}"\n)\n')
        return 0
    for name, language, texts in questions(data):
        told = [language_of(text) for text in texts]
        right, wrong = told.count(language), len(told) - told.count(language) - told.count(None)
        print(f"{name:8} {language:8} {len(texts):5} {right / len(texts):6.1%} right, {wrong / len(texts):5.1%} wrong")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
