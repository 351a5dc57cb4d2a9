import gzip
import json
from pathlib import Path

import pytest

from training.errors import EvaluationError
from training.reranking.collection import Collection
from training.reranking.readers import read_collection


def write_json_lines(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def answers(collection: Collection) -> list[tuple[dict, list[dict]]]:
    return [(dict(q.texts), [dict(collection.passages[index]) for index in q.positives]) for q in collection.questions]


def test_json_lines_of_one_id_are_one_question(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "query": "why", "qlang": "en", "positive": "because", "plang": "en"},
        {"id": "1", "query": "warum", "qlang": "de", "positive": "because", "plang": "en"},
        {"id": "1", "query": "warum", "qlang": "de", "positive": "darum", "plang": "de"},
    ]
    found = read_collection(write_json_lines(tmp_path / "a.jsonl", rows), "jsonl")
    assert answers(found) == [({"en": "why", "de": "warum"}, [{"en": "because", "de": "darum"}])]


def test_an_ambiguous_id_joins_no_queries(tmp_path: Path) -> None:
    rows = [
        {"id": "0", "query": "q", "qlang": "en", "positive": "one"},
        {"id": "0", "query": "r", "qlang": "en", "positive": "two"},
        {"id": "0", "query": "s", "qlang": "ko", "positive": "three"},
    ]
    found = read_collection(write_json_lines(tmp_path / "a.jsonl", rows), "jsonl")
    assert answers(found) == [
        ({"en": "q"}, [{"en": "one"}]), ({"en": "r"}, [{"en": "two"}]), ({"ko": "s"}, [{"ko": "three"}]),
    ]  # fmt: skip


def test_json_lines_with_negatives_have_candidates_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"query": "q", "language": "de", "positives": ["a", "b"], "negatives": ["c"]},
        {"query": "r", "language": "de", "positives": ["c"]},
    ]
    found = read_collection(write_json_lines(tmp_path / "a.jsonl", rows), "jsonl")
    assert [question.candidates for question in found.questions] == [(0, 1, 2), None]
    assert found.passages == ({"de": "a"}, {"de": "b"}, {"de": "c"})


def test_windows_around_two_answers_stay_two_passages(tmp_path: Path) -> None:
    rows = [{"id": "1", "query": "q", "qlang": "en", "positive": text, "plang": "en"} for text in ("one", "two")]
    found = read_collection(write_json_lines(tmp_path / "a.jsonl", rows), "jsonl")
    assert answers(found) == [({"en": "q"}, [{"en": "one"}, {"en": "two"}])]


def squad(context: str, *questions: tuple[str, str]) -> str:
    asked = [{"id": id_, "question": text, "answers": []} for id_, text in questions]
    return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": context, "qas": asked}]}]})


def test_squad_files_are_joined_by_the_ids_of_their_questions(tmp_path: Path) -> None:
    (tmp_path / "xquad.en.json").write_text(squad("passage", ("1", "who"), ("2", "what")))
    (tmp_path / "xquad.zh.json").write_text(squad("段落", ("1", "谁"), ("2", "什么")))
    (tmp_path / "dev-context-en-question-de.json").write_text(squad("passage", ("1", "wer")))
    found = read_collection(tmp_path, "squad")
    both = {"en": "passage", "zh": "段落"}
    assert answers(found) == [
        ({"de": "wer", "en": "who", "zh": "谁"}, [both]),
        ({"en": "what", "zh": "什么"}, [both]),
    ]


def test_mkqa_has_queries_and_answers_by_language(tmp_path: Path) -> None:
    rows = [
        {
            "example_id": 7,
            "query": "capital of france",
            "queries": {"de": "hauptstadt von frankreich"},
            "answers": {"en": [{"type": "entity", "text": "Paris"}], "de": [{"type": "entity", "text": "Paris"}]},
        },
        {"example_id": 8, "queries": {"en": "x"}, "answers": {"en": [{"type": "unanswerable", "text": None}]}},
    ]
    found = read_collection(write_json_lines(tmp_path / "mkqa.jsonl", rows), "mkqa")
    expected = {"en": "capital of france", "de": "hauptstadt von frankreich"}
    assert answers(found) == [(expected, [{"en": "Paris", "de": "Paris"}])]


def test_xquad_tables_are_parallel(tmp_path: Path) -> None:
    for language, passage, query in (("en", "passage", "who"), ("zh", "段落", "谁")):
        with gzip.open(tmp_path / f"passages.{language}.tsv.gz", "wt", encoding="utf-8") as file:
            file.write(f"p0\t{passage}\np1\tother {language}\n")
        (tmp_path / f"queries.{language}.tsv").write_text(f"q0\tp0\t{query}\n", encoding="utf-8")
    found = read_collection(tmp_path, "tsv")
    assert answers(found) == [({"en": "who", "zh": "谁"}, [{"en": "passage", "zh": "段落"}])]
    assert len(found.passages) == 2


def test_bipar_tables_are_english_and_chinese(tmp_path: Path) -> None:
    (tmp_path / "queries_full.tsv").write_text("q\twho\t谁\n", encoding="utf-8")
    (tmp_path / "passages_full.tsv").write_text("p\tpassage\t段落\ta book\n", encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("q\tp\n")
    found = read_collection(tmp_path, "tsv")
    assert answers(found) == [({"en": "who", "zh": "谁"}, [{"en": "passage", "zh": "段落"}])]


def test_insurance_questions_have_their_pool_and_chinese(tmp_path: Path) -> None:
    name = "InsuranceQA.question.anslabel.token.500.pool.solr.test.encoded.gz"
    (tmp_path / "vocabulary").write_text("idx_1\twhat\nidx_2\tis\nidx_3\tyes\nidx_4\tno\n")
    (tmp_path / "InsuranceQA.label2answer.token.encoded").write_text("1\tidx_3\n2\tidx_4\n3\tidx_1\n")
    with gzip.open(tmp_path / name, "wt") as file:
        file.write("life\tidx_1 idx_2\t1\t2 1\nauto\tidx_2\t3\t1 2\n")
    (tmp_path / "answers.json").write_text(json.dumps({"1": {"en": "yes", "zh": "是"}}), encoding="utf-8")
    (tmp_path / "test.json").write_text(json.dumps({"0": {"en": "What is?", "zh": "什么"}}), encoding="utf-8")
    found = read_collection(tmp_path / "test", "insurance")
    assert answers(found) == [
        ({"en": "what is", "zh": "什么"}, [{"en": "yes", "zh": "是"}])
    ]  # the other: not in its pool
    assert set(found.questions[0].candidates or ()) == {0, 1}


def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"there is no .*none\.jsonl"):
        read_collection(tmp_path / "none.jsonl", "jsonl")
    with pytest.raises(EvaluationError, match="line 1 has positives that are not a list of texts"):
        read_collection(write_json_lines(tmp_path / "a.jsonl", [{"query": "q"}]), "jsonl")
    (tmp_path / "en.json").write_text("{}")
    with pytest.raises(EvaluationError, match="is not of SQuAD's layout"):
        read_collection(tmp_path / "en.json", "squad")
    (tmp_path / "train-v2.0.json").write_text(squad("c", ("1", "q")))
    with pytest.raises(EvaluationError, match="names no language"):
        read_collection(tmp_path / "train-v2.0.json", "squad")


def test_parallel_lines_become_passages_with_a_question_each(tmp_path: Path) -> None:
    for other, count in (("de", 7), ("zh", 5)):
        rows = (f"e{number}\t{other}{number}\n" for number in range(count))
        (tmp_path / f"en-{other}.tsv").write_text("".join(rows))
    found = read_collection(tmp_path, "parallel")
    assert answers(found) == [
        ({"en": "e0", "de": "de0"}, [{"en": "e0 e1 e2 e3 e4", "de": "de0 de1 de2 de3 de4", "zh": "zh0zh1zh2zh3zh4"}]),
        ({"en": "e0", "zh": "zh0"}, [{"en": "e0 e1 e2 e3 e4", "de": "de0 de1 de2 de3 de4", "zh": "zh0zh1zh2zh3zh4"}]),
        ({"en": "e6", "de": "de6"}, [{"en": "e5 e6", "de": "de5 de6"}]),
    ]
