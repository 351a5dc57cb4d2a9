"""Reads InsuranceQA v2 (Feng et al. 2015) and its Chinese translation (insuranceqa-corpus-zh). Knows files alone.

A folder holds, each plain or .gz:
    vocabulary                                               idx_1<TAB>word
    InsuranceQA.label2answer.token.encoded                   label<TAB>idx_1 idx_2 ..
    InsuranceQA.question.anslabel.token.500.pool.solr.<split>.encoded
                                                             domain<TAB>question<TAB>labels<TAB>labels of the pool
    answers.json, <split>.json                               {"label": {"en": .., "zh": ..}}; these two may be missing

`raw` in the place of `token` is read alike.
"""

from __future__ import annotations

import json
from pathlib import Path

from training.errors import EvaluationError
from training.evaluation.lines import find_file, parse_lines, read_rows, split_columns
from training.reranking.collection import Collection, CollectionBuilder
from training.system.text_files import open_bytes

POOL = 500  # answers that Solr found for a question
ROW = "domain<TAB>question<TAB>labels<TAB>labels of the pool"


def read_insurance(path: Path) -> Collection:
    """The questions of one split, e.g. FOLDER/test, with its 500 candidates each, in English and, where there, Chinese.

    Chinese questions are joined by the letters of their English side, answers by their label.

    Raises: EvaluationError: a file is missing or malformed.
    """
    folder, split = path.parent, path.name
    words = dict(read_rows(_file(folder, "vocabulary"), "index<TAB>word"))
    chinese_answer = _translations(folder / "answers.json")
    chinese_question = {_letters(one["en"]): one["zh"] for one in _translations(folder / f"{split}.json").values()}
    builder = CollectionBuilder()
    index_of = {
        label: builder.passage(
            {"en": _decoded(text, words), **({"zh": found["zh"]} if (found := chinese_answer.get(label)) else {})},
            label,
        )
        for label, text in read_rows(_either(folder, "InsuranceQA.label2answer.{}.encoded"), "label<TAB>answer")
    }
    file = _either(folder, f"InsuranceQA.question.anslabel.{{}}.{POOL}.pool.solr.{split}.encoded")
    for number, (_, question, labels, pool) in enumerate(parse_lines(file, lambda line: split_columns(line, ROW), ROW)):
        english = _decoded(question, words)
        chinese = chinese_question.get(_letters(english))
        candidates = [index_of[label] for label in pool.split() if label in index_of]
        positives = [index_of[label] for label in labels.split() if label in index_of]
        in_pool = [index for index in positives if index in candidates]
        if in_pool:  # 1,625 of the 2,000 of the test split: "usable" in the paper
            texts = {"en": english, **({"zh": chinese} if chinese else {})}
            builder.question((split, number), texts, in_pool, candidates)
    return builder.build()


def _decoded(text: str, words: dict[str, str]) -> str:
    """Words for their indices; raw text stays."""
    return " ".join(words.get(token, token) for token in text.split())


def _letters(text: str) -> str:
    """A question's letters and digits: one file has its text, the other its tokens, punctuation apart."""
    return "".join(filter(str.isalnum, text.casefold()))


def _translations(path: Path) -> dict[str, dict[str, str]]:
    file = find_file(path)
    if file is None:
        return {}
    try:
        with open_bytes(file) as handle:
            rows = json.load(handle)
        return {str(label): {"en": str(row["en"]), "zh": str(row["zh"])} for label, row in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise EvaluationError(f"{file} is not an object of objects with en and zh ({exc!r})") from exc


def _either(folder: Path, pattern: str) -> Path:
    """The file of tokens, or of raw text."""
    return find_file(folder / pattern.format("token")) or _file(folder, pattern.format("raw"))


def _file(folder: Path, name: str) -> Path:
    path = find_file(folder / name)
    if path is None:
        raise EvaluationError(f"{folder} has no {name}; InsuranceQA v2 is read from its own files")
    return path
