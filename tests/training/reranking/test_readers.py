import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training.files import write
from training.errors import EvaluationError
from training.reranking.collection import Collection
from training.reranking.readers import find_collection, read_collection


def answers(collection: Collection) -> list[tuple[dict, list[dict]]]:
    return [(dict(q.texts), [dict(collection.passages[index]) for index in q.positives]) for q in collection.questions]


def lines(*rows: dict) -> list[str]:
    return [json.dumps(row, ensure_ascii=False) for row in rows]


def squad(context: str, *questions: tuple[str, str]) -> list[str]:
    asked = [{"id": id_, "question": text, "answers": []} for id_, text in questions]
    return lines({"data": [{"title": "t", "paragraphs": [{"context": context, "qas": asked}]}]})


EN_ZH = [({"en": "who", "zh": "谁"}, [{"en": "passage", "zh": "段落"}])]
CHUNK = {"en": "e0 e1 e2 e3 e4", "de": "de0 de1 de2 de3 de4", "zh": "zh0zh1zh2zh3zh4"}
LAYOUTS = {  # kind, files, each question with the passages that answer it
    "rows of one id are one question": (
        "jsonl",
        {
            "a.jsonl": lines(
                {"id": "1", "query": "why", "qlang": "en", "positive": "because", "plang": "en"},
                {"id": "1", "query": "warum", "qlang": "de", "positive": "because", "plang": "en"},
                {"id": "1", "query": "warum", "qlang": "de", "positive": "darum", "plang": "de"},
            )
        },
        [({"en": "why", "de": "warum"}, [{"en": "because", "de": "darum"}])],
    ),
    "an ambiguous id joins no queries": (
        "jsonl",
        {
            "a.jsonl": lines(
                {"id": "0", "query": "q", "qlang": "en", "positive": "one"},
                {"id": "0", "query": "r", "qlang": "en", "positive": "two"},
                {"id": "0", "query": "s", "qlang": "ko", "positive": "three"},
            )
        },
        [({"en": "q"}, [{"en": "one"}]), ({"en": "r"}, [{"en": "two"}]), ({"ko": "s"}, [{"ko": "three"}])],
    ),
    "an id of 0 is an id": (
        "jsonl",
        {
            "a.jsonl": lines(
                {"id": 0, "query": "why", "language": "en", "positive": "so"},
                {"id": 0, "query": "warum", "language": "de", "positive": "darum"},
            )
        },
        [({"en": "why", "de": "warum"}, [{"en": "so", "de": "darum"}])],
    ),
    "windows around two answers stay two passages": (
        "jsonl",
        {"a.jsonl": lines(*({"id": "1", "query": "q", "language": "en", "positive": text} for text in ("one", "two")))},
        [({"en": "q"}, [{"en": "one"}, {"en": "two"}])],
    ),
    "squad files are joined by their questions' ids": (
        "squad",
        {
            "xquad.en.json": squad("passage", ("1", "who"), ("2", "what")),
            "xquad.zh.json": squad("段落", ("1", "谁"), ("2", "什么")),
            "dev-context-en-question-de.json": squad("passage", ("1", "wer")),
        },
        [({"de": "wer", **EN_ZH[0][0]}, EN_ZH[0][1]), ({"en": "what", "zh": "什么"}, EN_ZH[0][1])],
    ),
    "xquad's tables are parallel": (
        "tsv",
        {
            "passages.en.tsv.gz": ["p0\tpassage", "p1\tother"],
            "passages.zh.tsv.gz": ["p0\t段落"],
            "queries.en.tsv": ["q0\tp0\twho"],
            "queries.zh.tsv": ["q0\tp0\t谁"],
        },
        EN_ZH,
    ),
    "bipar's tables are english and chinese": (
        "tsv",
        {
            "queries_full.tsv": ["q\twho\t谁"],
            "passages_full.tsv": ["p\tpassage\t段落\ta book"],
            "qrels.tsv": ["q\tp"],
        },
        EN_ZH,
    ),
    "parallel lines become passages with a question each": (
        "parallel",
        {
            "en-de.tsv": [f"e{number}\tde{number}" for number in range(7)],
            "en-zh.tsv": [f"e{number}\tzh{number}" for number in range(5)],
        },
        [
            ({"en": "e0", "de": "de0"}, [CHUNK]),
            ({"en": "e0", "zh": "zh0"}, [CHUNK]),
            ({"en": "e6", "de": "de6"}, [{"en": "e5 e6", "de": "de5 de6"}]),
        ],
    ),
}


@pytest.mark.parametrize(("kind", "files", "expected"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_gives_its_questions(tmp_path: Path, kind: str, files: dict[str, list[str]], expected: list) -> None:
    for name, content in files.items():
        write(tmp_path / name, *content)
    path = tmp_path if kind != "jsonl" else tmp_path / next(iter(files))
    assert answers(read_collection(path, kind)) == expected
    write(tmp_path / "scores.json", "{}")  # names no language, so it belongs to no set
    if kind != "parallel":
        assert answers(find_collection(tmp_path)) == expected


def test_json_lines_with_negatives_have_candidates_of_their_own(tmp_path: Path) -> None:
    rows = lines(
        {"query": "q", "language": "de", "positives": ["a", "b"], "negatives": ["c"]},
        {"query": "r", "language": "de", "positives": ["c"]},
    )
    collection = read_collection(write(tmp_path / "a.jsonl", *rows), "jsonl")
    assert [question.candidates for question in collection.questions] == [(0, 1, 2), None]
    assert collection.passages == ({"de": "a"}, {"de": "b"}, {"de": "c"})


def test_insurance_questions_have_their_pool_and_chinese(tmp_path: Path) -> None:
    name = "InsuranceQA.question.anslabel.token.500.pool.solr.test.encoded.gz"
    write(tmp_path / "vocabulary", "idx_1\twhat", "idx_2\tis", "idx_3\tyes", "idx_4\tno")
    write(tmp_path / "InsuranceQA.label2answer.token.encoded", "1\tidx_3", "2\tidx_4", "3\tidx_1")
    write(tmp_path / name, "life\tidx_1 idx_2\t1\t2 1", "auto\tidx_2\t3\t1 2")
    write(tmp_path / "answers.json", *lines({"1": {"en": "yes", "zh": "是"}}))
    write(tmp_path / "test.json", *lines({"0": {"en": "What is?", "zh": "什么"}}))
    found = read_collection(tmp_path / "test", "insurance")
    assert answers(found) == [
        ({"en": "what is", "zh": "什么"}, [{"en": "yes", "zh": "是"}])
    ]  # the other: not in its pool
    assert set(found.questions[0].candidates or ()) == {0, 1}


@pytest.mark.parametrize(
    ("name", "content", "kind", "complaint"),
    [
        ("a.jsonl", lines({"query": "q"}), "jsonl", "line 1 has positives that are not a list of texts"),
        (
            "a.jsonl",
            lines({"query": "q", "positive": "p", "id": [1]}),
            "jsonl",
            "line 1 has an id that is neither a text",
        ),
        (
            "a.jsonl",
            [r'{"query": "q", "positive": "\ud83d"}'],
            "jsonl",
            r"line 1 has half of a character, such as \\ud83d",
        ),
        ("en.json", ["{}"], "squad", "is not of SQuAD's layout"),
        ("en.json", lines({"data": [{"paragraphs": [{"qas": ["q"]}]}]}), "squad", "is not of SQuAD's layout"),
        ("en.json", [r'{"data": ["\ud83d"]}'], "squad", r"en\.json cannot be read as JSON: has half of a character"),
        ("train-v2.0.json", squad("c", ("1", "q")), "squad", "names no language"),
        ("queries.en.tsv", ["q\tp\tx"], "tsv", "names the passage p, which has no text beside it"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: list[str], kind: str, complaint: str
) -> None:
    path = write(tmp_path / name, *content)
    with pytest.raises(EvaluationError, match=complaint):
        read_collection(tmp_path if kind == "tsv" else path, kind)
    with pytest.raises(EvaluationError, match=r"there is no .*none\.jsonl"):
        read_collection(tmp_path / "none.jsonl", kind)


@pytest.mark.parametrize("damage", [lambda whole: whole[:-20], lambda whole: whole[:20] + b"\xff" + whole[21:]])
def test_a_damaged_gzip_is_refused_in_one_sentence(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    whole = gzip.compress("\n".join(squad("passage " * 99, ("1", "who"))).encode())
    (tmp_path / "xquad.en.json.gz").write_bytes(damage(whole))
    with pytest.raises(EvaluationError, match=r"xquad\.en\.json\.gz cannot be read as JSON: "):
        read_collection(tmp_path, "squad")
