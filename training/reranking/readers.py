"""Reads questions and passages of many layouts into one `Collection`. Knows files; knows no model and no split.

jsonl      a question a line: query, positives (or positive), negatives, qlang, plang (or language), id
squad      SQuAD's JSON (MLQA, XQuAD, BiPaR, JaQuAD ..), one file for each language or couple of languages
mkqa       MKQA's JSON lines: a question's queries and answers by language
tsv        XQuAD's queries.<lang>.tsv and passages.<lang>.tsv, or BiPaR's queries_full.tsv, passages_full.tsv, qrels.tsv
parallel   a source of parallel text, en-<lang>.tsv: a few lines in a row are a passage, one of them its question
insurance  InsuranceQA v2 and its Chinese translation (training.reranking.insurance)
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Literal

from training.corpora.sources.readers import read_pairs
from training.errors import EvaluationError
from training.evaluation.lines import LANGUAGE, find_file, parse_lines, read_rows, split_columns
from training.reranking.collection import Collection, CollectionBuilder
from training.reranking.insurance import read_insurance
from training.system.text_files import open_bytes

Format = Literal["jsonl", "squad", "mkqa", "tsv", "parallel", "insurance"]
SUFFIX = r"\.jsonl?(\.gz)?"
CONTEXT_AND_QUESTION = re.compile(rf".*context-(?P<passage>{LANGUAGE})-question-(?P<query>{LANGUAGE}){SUFFIX}")  # MLQA
ONE_LANGUAGE = re.compile(rf"(.*[._-])?(?P<passage>{LANGUAGE}){SUFFIX}")  # xquad.en.json
PARALLEL = re.compile(rf"en-(?P<other>{LANGUAGE})\.tsv(\.gz)?")
PASSAGE_LINES = 5  # of parallel text in a row
UNSPACED = ("zh", "zh_Hant", "ja", "th", "km", "my")  # sentences are joined without a space
BIPAR = ("queries_full.tsv", "passages_full.tsv", "qrels.tsv")  # id<TAB>English<TAB>Chinese


def read_collection(path: Path, kind: Format) -> Collection:
    """What a file or a folder of one of the layouts holds.

    Raises: EvaluationError: there is no such file, a line of it is malformed, or it holds no question.
    """
    if kind != "insurance" and not path.exists() and find_file(path) is None:  # its path names a split, not a file
        raise EvaluationError(f"there is no {path}")
    found = READERS[kind](find_file(path) or path)
    if not found.questions:
        raise EvaluationError(f"{path} holds no question with a passage that answers it")
    return found


def read_jsonl(path: Path) -> Collection:
    """Rows of one id are one question in several languages; without ids, rows of one query are.

    An id of several queries in one language names none of them: joined files may count from 0 each.
    """
    layout = "a JSON object with query, positives (or positive) and, where known, negatives, qlang, plang, id"
    rows = list(parse_lines(path, _question_row, layout))
    queries = {(row.get("id"), _query_language(row), row["query"]) for row in rows}
    times = Counter((id_, language) for id_, language, _ in queries)
    ambiguous = {id_ for (id_, _), count in times.items() if count > 1}
    builder = CollectionBuilder()
    for row in rows:
        query_language = _query_language(row)
        passage_language = row.get("plang") or row.get("language") or query_language
        key = None if row.get("id") in ambiguous else row.get("id")
        positives = row["positives"]
        indices = [
            builder.passage({passage_language: text}, None if key is None else (key, number))
            for number, text in enumerate(positives)
        ]
        negatives = row.get("negatives")
        others = None if negatives is None else [builder.passage({passage_language: text}) for text in negatives]
        builder.question(key or (query_language, row["query"]), {query_language: row["query"]}, indices, others)
    return builder.build()


def read_squad(path: Path) -> Collection:
    """A file, or all .json files of a folder: questions of one id are the same in another language.

    Languages are those of the file's name: `xquad.zh.json`, `dev-context-en-question-zh.json`.
    """
    builder = CollectionBuilder()
    for file in [path] if path.is_file() else _json_files(path):
        match = CONTEXT_AND_QUESTION.fullmatch(file.name) or ONE_LANGUAGE.fullmatch(file.name)
        if match is None:
            raise EvaluationError(
                f"{file} names no language: xquad.zh.json and dev-context-en-question-zh.json are names that do"
            )
        passage_language = match["passage"]
        query_language = match.groupdict().get("query") or passage_language
        for id_, question, context in _squad_rows(file):
            index = builder.passage({passage_language: context}, id_)
            builder.question(id_, {query_language: question}, [index])
    return builder.build()


def read_mkqa(path: Path) -> Collection:
    """Each question's answer is a passage; of several spellings the first. Questions without an answer are left out."""
    builder = CollectionBuilder()
    for row in parse_lines(path, _mkqa_row, "a JSON object with example_id, queries and answers"):
        answers = {
            language: found[0]["text"]
            for language, found in row["answers"].items()
            if found and isinstance(found[0].get("text"), str) and found[0]["text"]
        }
        queries = {"en": row["query"], **row["queries"]} if isinstance(row.get("query"), str) else row["queries"]
        if answers and queries:
            builder.question(row["example_id"], queries, [builder.passage(answers)])
    return builder.build()


def read_tsv(folder: Path) -> Collection:
    """Passages and questions in all languages that the folder has files of."""
    builder = CollectionBuilder()
    paths = [find_file(folder / name) for name in BIPAR]
    if None not in paths:
        queries, passages, qrels = (path for path in paths if path)
        index_of = {
            id_: builder.passage({"en": english, "zh": chinese}, id_)
            for id_, english, chinese in parse_lines(passages, _bipar_row, "id<TAB>English<TAB>Chinese")
        }
        answers: dict[str, list[int]] = {}
        for query, passage in read_rows(qrels, "query<TAB>passage"):
            answers.setdefault(query, []).append(_known(index_of, passage, qrels))
        for id_, english, chinese in parse_lines(queries, _bipar_row, "id<TAB>English<TAB>Chinese"):
            builder.question(id_, {"en": english, "zh": chinese}, answers.get(id_, []))
        return builder.build()
    index_of = {}
    for language, path in tsv_files(folder, "passages"):
        for id_, text in read_rows(path, "passage<TAB>text"):
            index_of[id_] = builder.passage({language: text}, id_)
    for language, path in tsv_files(folder, "queries"):
        for id_, passage, text in read_rows(path, "query<TAB>passage<TAB>text"):
            builder.question(id_, {language: text}, [_known(index_of, passage, path)])
    return builder.build()


def read_parallel(folder: Path) -> Collection:
    """Questions and passages in English and one other language, of each language in turn.

    A question is a sentence of its passage, the first of the first passage, the second of the second, and so on.
    """
    matches = ((PARALLEL.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    by_language = [_parallel_rows(path, match["other"]) for match, path in matches if match]
    builder = CollectionBuilder()
    for number, chunks in enumerate(zip_longest(*by_language)):
        for one in filter(None, chunks):
            passage = {name: ("" if name in UNSPACED else " ").join(texts) for name, texts in one.items()}
            question = {name: texts[number % len(texts)] for name, texts in one.items()}
            builder.question((number, *one), question, [builder.passage(passage)])
    return builder.build()


def _parallel_rows(path: Path, other: str) -> Iterator[dict[str, list[str]]]:
    """A few lines in a row, by language."""
    pairs = read_pairs(path, other)
    while chunk := list(islice(pairs, PASSAGE_LINES)):
        yield {"en": [english for english, _ in chunk], other: [text for _, text in chunk]}


def tsv_files(folder: Path, stem: str) -> list[tuple[str, Path]]:
    """`<stem>.<language>.tsv`, plain or .gz, by language."""
    name = re.compile(rf"{stem}\.(?P<language>{LANGUAGE})\.tsv(\.gz)?")
    matches = ((name.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return [(match["language"], path) for match, path in matches if match]


def _query_language(row: dict[str, Any]) -> str:
    return row.get("qlang") or row.get("language") or "und"


def _bipar_row(line: str) -> list[str]:
    """Passages may name their book in a fourth column."""
    columns = line.split("\t")
    return split_columns("\t".join(columns[:3]) if len(columns) == 4 else line, "id<TAB>English<TAB>Chinese")


def _known(index_of: dict[str, int], passage: str, path: Path) -> int:
    if passage not in index_of:
        raise EvaluationError(f"{path} names the passage {passage}, which has no text beside it")
    return index_of[passage]


def _question_row(line: str) -> dict[str, Any]:
    row = json.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get("query"), str):
        raise ValueError("has no query")
    row.setdefault("positives", [row["positive"]] if "positive" in row else None)
    for key in ("positives", "negatives"):
        texts = row.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"has {key} that are not a list of texts")
    return row


def _mkqa_row(line: str) -> dict[str, Any]:
    row = json.loads(line)
    if not isinstance(row, dict) or not all(isinstance(row.get(key), dict) for key in ("queries", "answers")):
        raise ValueError("lacks queries or answers")
    if "example_id" not in row:
        raise ValueError("lacks example_id")
    return row


def _squad_rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """Id, question and passage; questions without an answer (SQuAD 2.0) are left out."""
    try:
        with open_bytes(file) as handle:
            articles = json.load(handle)["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    if not question.get("is_impossible"):
                        yield str(question["id"]), question["question"], paragraph["context"]
    except (ValueError, KeyError, TypeError) as exc:
        raise EvaluationError(f"{file} is not of SQuAD's layout: data, paragraphs, context, qas ({exc!r})") from exc


def _json_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if re.fullmatch(rf".+{SUFFIX}", path.name))


READERS: dict[Format, Callable[[Path], Collection]] = {
    "jsonl": read_jsonl,
    "squad": read_squad,
    "mkqa": read_mkqa,
    "tsv": read_tsv,
    "parallel": read_parallel,
    "insurance": read_insurance,
}
