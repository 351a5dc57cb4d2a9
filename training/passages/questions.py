"""Questions and the passages that answer them, question and passage in one language.

Shapes: Q questions.
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.config.run import QuestionSet
from training.corpora.leakage import EvaluationSentences, clean_passage, is_held_out
from training.errors import CorpusError
from training.reranking.data import MeasuredText
from training.reranking.readers import read_collection

logger = logging.getLogger(__name__)
FILE = "questions.json.gz"
SHORTEST_PASSAGE = 20  # characters


@dataclass(frozen=True)
class Questions:
    """Question i is `texts[question_Q[i]]`, in `languages[language_Q[i]]`; `texts[passage_Q[i]]` answers it.

    is_held_out_Q: its passage is kept out of training.  counts: questions to train on, by set.
    """

    texts: list[str]
    languages: list[str]
    question_Q: NDArray[np.int32]
    passage_Q: NDArray[np.int32]
    language_Q: NDArray[np.int64]
    is_held_out_Q: NDArray[np.bool_]
    counts: dict[str, int]

    def rows(self, *, held_out: bool) -> dict[str, NDArray[np.int64]]:
        """The questions of each language that has some, for training or held out."""
        wanted_Q = self.is_held_out_Q == held_out
        rows = {name: np.flatnonzero(wanted_Q & (self.language_Q == code)) for code, name in enumerate(self.languages)}
        return {name: found for name, found in rows.items() if len(found)}

    def save(self, folder: Path) -> None:
        """Write the questions."""
        columns = zip(self.question_Q, self.passage_Q, self.language_Q, self.is_held_out_Q, strict=True)
        content = {
            "counts": self.counts,
            "languages": self.languages,
            "texts": self.texts,
            "questions": [[int(value) for value in row] for row in columns],
        }
        with gzip.open(folder / FILE, "wt", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False)

    @classmethod
    def load(cls, folder: Path) -> Questions:
        """Read what `save` wrote."""
        with gzip.open(folder / FILE, "rt", encoding="utf-8") as file:
            content = json.load(file)
        table_Q4 = np.array(content["questions"], dtype=np.int32).reshape(-1, 4)
        asked_Q, passage_Q, code_Q, is_held_out_Q = table_Q4.T
        texts, languages, counts = (content[name] for name in ("texts", "languages", "counts"))
        return cls(texts, languages, asked_Q, passage_Q, code_Q.astype(np.int64), is_held_out_Q.astype(bool), counts)


def read_questions(
    data: Path, sets: Mapping[str, QuestionSet], languages: list[str], measured: MeasuredText, *, seed: int
) -> Questions:
    """Read sets of `data`/qa, without what is measured.

    Raises: CorpusError: no question is left in any of the languages.
    """
    number: dict[str, int] = {}
    facts: dict[tuple[int, int], tuple[int, bool]] = {}  # question and passage -> language, held out
    counts = dict.fromkeys(sets, 0)
    for name, settings in sets.items():
        rows = list(_rows(data / "qa" / f"{name}.jsonl"))
        np.random.default_rng((seed, zlib.crc32(name.encode()))).shuffle(rows)
        for code, language in enumerate(languages):
            own = (row for row in rows if row[2] == language)
            unmeasured = (row for row in own if not measured.has({"question": row[0], "passage": row[1]}))
            for question, passage, _ in islice(unmeasured, settings.questions):
                key = number.setdefault(question, len(number)), number.setdefault(passage, len(number))
                held_out = is_held_out(passage)
                counts[name] += key not in facts and not held_out
                facts.setdefault(key, (code, held_out))
    if not facts:
        raise CorpusError(f"{data / 'qa'} has no question in {', '.join(languages)} that is not measured")
    pairs_Q2, code_Q = np.array(list(facts), dtype=np.int32), np.array([code for code, _ in facts.values()])
    is_held_out_Q = np.array([held_out for _, held_out in facts.values()])
    by_language = Counter(languages[code] for code in code_Q[~is_held_out_Q])
    logger.info("questions to train on: %s; by set: %s; held out: %d", dict(by_language), counts, is_held_out_Q.sum())
    return Questions(list(number), languages, pairs_Q2[:, 0], pairs_Q2[:, 1], code_Q, is_held_out_Q, counts)


def _rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Question, passage and language, where both are in one."""
    collection = read_collection(path, "jsonl")
    for question in collection.questions:
        for language, text in question.texts.items():
            for index in question.positives:
                passage = clean_passage(collection.passages[index].get(language, ""))
                if len(passage) >= SHORTEST_PASSAGE:
                    yield " ".join(text.lstrip("- ").split()), passage, language


def measured_text(data: Path, sets: list[str]) -> MeasuredText:
    """What must not be trained on: the text of `data`/eval, of the sets that ship, and of these sets of `data`/qa."""
    collections = [read_collection(data / "qa" / f"{name}.jsonl", "jsonl") for name in sets]
    return MeasuredText(collections, EvaluationSentences.of_data(data))
