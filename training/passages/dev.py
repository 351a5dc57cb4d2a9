"""Scores of a model while stage 5 is judged: passages found, similarity kept, and search over short documents.

Shapes: Q questions, P passages, D dims.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.evaluation.lines import read_json_lines
from training.evaluation.vectors import Encode, unit_rows
from training.passages.questions import Questions
from training.reranking.readers import read_tsv

MOST_QUESTIONS = 500  # held-out ones of a language
SEARCH = Path(__file__).parents[1] / "evaluation" / "bundled" / "search"


@dataclass(frozen=True)
class Lookup:
    """Questions over passages: `passages[answers[i]]` answers `queries[i]`."""

    queries: list[str]
    passages: list[str]
    answers: list[int]

    def first_right(self, encode: Encode) -> float:
        """How many questions find their passage first, x 100."""
        query_QD, passage_PD = unit_rows(encode(self.queries)), unit_rows(encode(self.passages))
        return 100 * float(np.mean((query_QD @ passage_PD.T).argmax(axis=1) == np.array(self.answers)))


@dataclass(frozen=True)
class DevSets:
    """What stage 5 is judged by, by name and language."""

    passages: dict[str, Lookup]
    search: Lookup

    @classmethod
    def read(cls, questions: Questions, evaluation: Path) -> DevSets:
        """The held-out questions, the questions at even places of XQuAD where it is there, and the search set's dev."""
        held_out = {
            f"held-out {name}": _held_out(questions, rows) for name, rows in questions.rows(held_out=True).items()
        }
        xquad = _xquad(evaluation / "xquad") if (evaluation / "xquad").is_dir() else {}
        return cls(held_out | xquad, _search())

    def found(self, encode: Encode) -> dict[str, float]:
        """How many questions find their passage first, x 100, by set and language."""
        return {name: lookup.first_right(encode) for name, lookup in self.passages.items()}

    def judged(self, encode: Encode, similarity: Callable[[], dict[str, float]] | None) -> dict[str, float]:
        """The means of the three kinds, and their own mean: a gain in one must not cost as much in another.

        similarity: STS dev by language pair, of the same model; None: there is none.
        """
        kinds = {
            "passages": float(np.mean(list(self.found(encode).values()))),
            "search": self.search.first_right(encode),
        }
        if similarity is not None:
            kinds["similarity"] = float(np.mean(list(similarity().values())))
        return {**kinds, "mean": float(np.mean(list(kinds.values())))}


def _held_out(questions: Questions, rows: np.ndarray) -> Lookup:
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_QUESTIONS)).round().astype(int)]
    pool, answers = np.unique(questions.passage_Q[rows], return_inverse=True)
    place = dict(zip(rows.tolist(), answers.tolist(), strict=True))
    return Lookup(
        [questions.texts[row] for row in questions.question_Q[some]],
        [questions.texts[row] for row in pool],
        [place[row] for row in some.tolist()],
    )


def _xquad(folder: Path) -> dict[str, Lookup]:
    collection = read_tsv(folder)
    dev = collection.questions[::2]
    return {
        f"xquad {language}": Lookup(
            [question.texts[language] for question in dev],
            [passage[language] for passage in collection.passages],
            [question.positives[0] for question in dev],
        )
        for language in collection.languages
    }


def _search() -> Lookup:
    documents = read_json_lines(SEARCH / "documents.jsonl", ("id", "text"))
    place = {row["id"]: number for number, row in enumerate(documents)}
    queries = read_json_lines(SEARCH / "queries.jsonl", ("text", "split"))
    dev = [row for row in queries if row["split"] == "dev" and row.get("document")]
    return Lookup(
        [row["text"] for row in dev], [row["text"] for row in documents], [place[row["document"]] for row in dev]
    )
