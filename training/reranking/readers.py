"""Reads questions and passages of many layouts into one `Collection`.

jsonl      a question a line: query, positives (or positive), negatives, qlang, plang (or language), id
squad      SQuAD's JSON (MLQA, XQuAD, BiPaR, JaQuAD ..), one file for each language or couple of languages
tsv        XQuAD's queries.<lang>.tsv and passages.<lang>.tsv, or BiPaR's queries_full.tsv, passages_full.tsv, qrels.tsv
parallel   a source of parallel text, en-<lang>.tsv: a few lines in a row are a passage, one of them its question
insurance  InsuranceQA v2 (Feng et al. 2015) and its Chinese translation (insuranceqa-corpus-zh), see `read_insurance`
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from training.corpora.readers import read_pair_file
from training.errors import EvaluationError
from training.evaluation.lines import LANGUAGE, find_file, parse_lines, read_json_lines, read_rows, split_columns
from training.reranking.collection import Collection, CollectionBuilder
from training.reranking.config import Format
from training.system.text_files import open_bytes

SUFFIX = r"\.jsonl?(\.gz)?"
CONTEXT_AND_QUESTION = re.compile(rf".*context-(?P<passage>{LANGUAGE})-question-(?P<query>{LANGUAGE}){SUFFIX}")  # MLQA
ONE_LANGUAGE = re.compile(rf"(.*[._-])?(?P<passage>{LANGUAGE}){SUFFIX}")  # xquad.en.json
PASSAGE_LINES = 5  # of parallel text in a row
UNSPACED = ("zh", "zh_Hant", "ja", "th", "km", "my")  # sentences are joined without a space
BIPAR = ("queries_full.tsv", "passages_full.tsv", "qrels.tsv")
BIPAR_ROW = "id<TAB>English<TAB>Chinese"
POOL = 500  # answers that Solr found for a question of InsuranceQA
POOL_ROW = "domain<TAB>question<TAB>labels<TAB>labels of the pool"


def read_collection(path: Path, kind: Format) -> Collection:
    """Read a file or a folder of one of the layouts.

    Raises: EvaluationError: there is no such file, a line of it is malformed, or it holds no question.
    """
    file = find_file(path)
    if kind != "insurance" and not path.exists() and file is None:  # its path names a split, not a file
        raise EvaluationError(f"there is no {path}")
    collection = READERS[kind](file or path)
    if not collection.questions:
        raise EvaluationError(f"{path} holds no question with a passage that answers it")
    return collection


def find_collection(folder: Path) -> Collection | None:
    """Read the collection in a folder: XQuAD's or BiPaR's tables, JSON lines with query and positive, or SQuAD's JSON.

    None where there is none. A .json file whose name has no language, such as scores.json, is skipped.

    Raises: EvaluationError: a malformed line.
    """
    is_bipar = all(find_file(folder / name) for name in BIPAR)
    if is_bipar or (_files_by_language(folder, "queries.") and _files_by_language(folder, "passages.")):
        return read_tsv(folder)
    files = [path for path in _json_files(folder) if path.is_file()]
    files = [path for path in files if ".jsonl" in path.suffixes or ONE_LANGUAGE.fullmatch(path.name)]
    lines = [path for path in files if ".jsonl" in path.suffixes]
    if len(files) == len(lines) == 1:
        first = read_json_lines(lines[0], ())[0]
        if "query" in first and ("positive" in first or "positives" in first):
            return read_jsonl(lines[0])
    return read_squad(folder, files) if files and not lines else None


def read_jsonl(path: Path) -> Collection:
    """Read JSON lines. Rows of one id are one question in several languages; without ids, rows of one query are.

    An id of several queries in one language names none of them: joined files may count from 0 each.
    """
    layout = "a JSON object with query, positives (or positive) and, where known, negatives, qlang, plang, id"
    rows = list(parse_lines(path, _question_row, layout))
    queries = {(row.get("id"), row["qlang"], row["query"]) for row in rows}
    times = Counter((id_, language) for id_, language, _ in queries)
    ambiguous = {id_ for (id_, _), count in times.items() if count > 1}
    builder = CollectionBuilder()
    for row in rows:
        key = None if row.get("id") in ambiguous else row.get("id")
        positives = [
            builder.passage({row["plang"]: text}, None if key is None else (key, number))
            for number, text in enumerate(row["positives"])
        ]
        negatives = None
        if "negatives" in row:
            negatives = [builder.passage({row["plang"]: text}) for text in row["negatives"]]
        question = (row["qlang"], row["query"]) if key is None else key
        builder.question(question, {row["qlang"]: row["query"]}, positives, negatives)
    return builder.build()


def _question_row(line: str) -> dict[str, Any]:
    row = _parsed(line)
    if not isinstance(row, dict) or not isinstance(row.get("query"), str):
        raise ValueError("has no query")
    if not isinstance(row.get("id"), str | int | float | None):
        raise ValueError("has an id that is neither a text nor a number")
    row.setdefault("positives", [row["positive"]] if "positive" in row else None)
    for key in ("positives", "negatives"):
        texts = row.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"has {key} that are not a list of texts")
    row["qlang"] = row.get("qlang") or row.get("language") or "und"
    row["plang"] = row.get("plang") or row.get("language") or row["qlang"]
    return row


def _parsed(text: str | bytes) -> Any:
    value = json.loads(text)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as exc:
        raise ValueError(r"has half of a character, such as \ud83d alone") from exc
    return value


def _read_json(file: Path) -> Any:
    """Raises: EvaluationError: the file is damaged, or not JSON."""
    try:
        with open_bytes(file) as handle:
            return _parsed(handle.read())
    except (OSError, EOFError, zlib.error, ValueError) as exc:
        raise EvaluationError(f"{file} cannot be read as JSON: {exc}") from exc


def read_squad(path: Path, files: Sequence[Path] = ()) -> Collection:
    """Read a file, or a folder's .json files, these or all: questions of one id are the same in another language.

    Languages are those of the file's name: `xquad.zh.json`, `dev-context-en-question-zh.json`.
    """
    builder = CollectionBuilder()
    for file in [path] if path.is_file() else files or _json_files(path):
        match = CONTEXT_AND_QUESTION.fullmatch(file.name) or ONE_LANGUAGE.fullmatch(file.name)
        if match is None:
            raise EvaluationError(
                f"{file} names no language: xquad.zh.json and dev-context-en-question-zh.json are names that do"
            )
        query_language = match.groupdict().get("query") or match["passage"]
        for id_, question, context in _squad_rows(file):
            index = builder.passage({match["passage"]: context}, id_)
            builder.question(id_, {query_language: question}, [index])
    return builder.build()


def _squad_rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """Id, question and passage; questions without an answer (SQuAD 2.0) are left out."""
    content = _read_json(file)
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    if not question.get("is_impossible"):
                        yield str(question["id"]), question["question"], paragraph["context"]
    except (KeyError, TypeError, AttributeError) as exc:
        raise EvaluationError(f"{file} is not of SQuAD's layout: data, paragraphs, context, qas ({exc!r})") from exc


def read_tsv(folder: Path) -> Collection:
    """Read passages and questions in all languages that the folder has files of."""
    queries, passages, qrels = (find_file(folder / name) for name in BIPAR)
    if queries and passages and qrels:
        return _read_bipar(queries, passages, qrels)
    builder = CollectionBuilder()
    index_of = {}
    for language, path in _files_by_language(folder, "passages."):
        for id_, text in read_rows(path, "passage<TAB>text"):
            index_of[id_] = builder.passage({language: text}, id_)
    for language, path in _files_by_language(folder, "queries."):
        for id_, passage, text in read_rows(path, "query<TAB>passage<TAB>text"):
            builder.question(id_, {language: text}, [_known(index_of, passage, path)])
    return builder.build()


def _read_bipar(queries: Path, passages: Path, qrels: Path) -> Collection:
    builder = CollectionBuilder()
    index_of = {
        id_: builder.passage({"en": english, "zh": chinese}, id_)
        for id_, english, chinese in parse_lines(passages, _bipar_row, BIPAR_ROW)
    }
    answers: dict[str, list[int]] = defaultdict(list)
    for query, passage in read_rows(qrels, "query<TAB>passage"):
        answers[query].append(_known(index_of, passage, qrels))
    for id_, english, chinese in parse_lines(queries, _bipar_row, BIPAR_ROW):
        builder.question(id_, {"en": english, "zh": chinese}, answers[id_])
    return builder.build()


def _bipar_row(line: str) -> list[str]:
    """Passages may name their book in a fourth column."""
    columns = line.split("\t")
    return split_columns("\t".join(columns[:3]) if len(columns) == 4 else line, BIPAR_ROW)


def _known(index_of: dict[str, int], passage: str, path: Path) -> int:
    if passage not in index_of:
        raise EvaluationError(f"{path} names the passage {passage}, which has no text beside it")
    return index_of[passage]


def read_parallel(folder: Path) -> Collection:
    """Read questions and passages in English and one other language, of each language in turn.

    A question is a sentence of its passage, the first of the first passage, the second of the second, and so on.
    """
    by_language = [_chunks(path, language) for language, path in _files_by_language(folder, "en-")]
    builder = CollectionBuilder()
    for number, chunks in enumerate(zip_longest(*by_language)):
        for chunk in filter(None, chunks):
            passage = {name: ("" if name in UNSPACED else " ").join(texts) for name, texts in chunk.items()}
            question = {name: texts[number % len(texts)] for name, texts in chunk.items()}
            builder.question((number, *chunk), question, [builder.passage(passage)])
    return builder.build()


def _chunks(path: Path, language: str) -> Iterator[dict[str, list[str]]]:
    """A few lines in a row, by language."""
    pairs = read_pair_file(path, language, on_bad_line=None)
    while chunk := list(islice(pairs, PASSAGE_LINES)):
        yield {"en": [english for english, _ in chunk], language: [other for _, other in chunk]}


def read_insurance(path: Path) -> Collection:
    """Read one split, e.g. FOLDER/test: questions with 500 candidates each, in English and, where there, Chinese.

    FOLDER holds, each plain or .gz, with `raw` or `token`:
        vocabulary                                    idx_1<TAB>word
        InsuranceQA.label2answer.token.encoded        label<TAB>idx_1 idx_2 ..
        InsuranceQA.question.anslabel.token.500.pool.solr.<split>.encoded
                                                      domain<TAB>question<TAB>labels<TAB>labels of the pool
        answers.json, <split>.json                    {"label": {"en": .., "zh": ..}}; these two may be missing
    Chinese questions are joined by the letters of their English side, answers by their label.

    Raises: EvaluationError: a file is missing or malformed.
    """
    folder, split = path.parent, path.name
    words = dict(read_rows(_insurance_file(folder, "vocabulary"), "index<TAB>word"))
    chinese_answers = {label: chinese for label, _, chinese in _translations(folder / "answers.json")}
    chinese_questions = {_letters(english): chinese for _, english, chinese in _translations(folder / f"{split}.json")}
    builder = CollectionBuilder()
    index_of = {}
    for label, answer in read_rows(_insurance_file(folder, "InsuranceQA.label2answer.{}.encoded"), "label<TAB>answer"):
        texts = {"en": _in_words(answer, words)}
        if label in chinese_answers:
            texts["zh"] = chinese_answers[label]
        index_of[label] = builder.passage(texts, label)
    file = _insurance_file(folder, f"InsuranceQA.question.anslabel.{{}}.{POOL}.pool.solr.{split}.encoded")
    for number, (_, question, labels, pool) in enumerate(read_rows(file, POOL_ROW)):
        texts = {"en": _in_words(question, words)}
        if chinese := chinese_questions.get(_letters(texts["en"])):
            texts["zh"] = chinese
        candidates = [index_of[label] for label in pool.split() if label in index_of]
        positives = [index_of[label] for label in labels.split() if label in index_of]
        in_pool = [index for index in positives if index in candidates]
        if in_pool:  # 1,625 of the 2,000 of the test split: "usable" in the paper
            builder.question((split, number), texts, in_pool, candidates)
    return builder.build()


def _insurance_file(folder: Path, pattern: str) -> Path:
    """Return the file of tokens, or of raw text."""
    files = [find_file(folder / pattern.format(kind)) for kind in ("token", "raw")]
    path = files[0] or files[1]
    if path is None:
        raise EvaluationError(f"{folder} has no {pattern.format('raw')}; InsuranceQA v2 is read from its own files")
    return path


def _translations(path: Path) -> list[tuple[str, str, str]]:
    """Label, English and Chinese of each text; a missing file has none."""
    file = find_file(path)
    if file is None:
        return []
    rows = _read_json(file)
    try:
        return [(label, str(row["en"]), str(row["zh"])) for label, row in rows.items()]
    except (KeyError, TypeError, AttributeError) as exc:
        raise EvaluationError(f"{file} is not an object of objects with en and zh ({exc!r})") from exc


def _in_words(text: str, words: dict[str, str]) -> str:
    """Replace indices by their words; raw text stays."""
    return " ".join(words.get(token, token) for token in text.split())


def _letters(text: str) -> str:
    """Return a question's letters and digits: one file has its text, the other its tokens, punctuation apart."""
    return "".join(filter(str.isalnum, text.casefold()))


def _json_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if re.fullmatch(rf".+{SUFFIX}", path.name))


def _files_by_language(folder: Path, stem: str) -> list[tuple[str, Path]]:
    """`<stem><language>.tsv`, plain or .gz."""
    name = re.compile(rf"{re.escape(stem)}({LANGUAGE})\.tsv(\.gz)?")
    return [(match[1], path) for path in sorted(folder.iterdir()) if (match := name.fullmatch(path.name))]


READERS: dict[Format, Callable[[Path], Collection]] = {
    "jsonl": read_jsonl,
    "squad": read_squad,
    "tsv": read_tsv,
    "parallel": read_parallel,
    "insurance": read_insurance,
}
