import json
import math
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, Success, nDCG

from tests.training.evaluation.test_sts import encode_by_length
from tests.training.files import write
from training.errors import EvaluationError
from training.evaluation.retrieval import (
    evaluate_retrieval,
    rank_passages,
    read_retrieval,
    score_rankings,
)

MEASURES = {
    "acc@1": Success @ 1,
    "acc@5": Success @ 5,
    "acc@10": Success @ 10,
    "mrr@10": RR @ 10,
    "map@100": AP @ 100,
    "ndcg@10": nDCG @ 10,
}


def test_metrics_agree_with_ir_measures_on_graded_relevance() -> None:
    generator = np.random.default_rng(0)
    documents = [f"d{index:03}" for index in range(150)]
    rankings, qrels = {}, {}
    for index in range(40):
        judged = generator.choice(documents, size=generator.integers(1, 30), replace=False)
        qrels[f"q{index}"] = {str(name): float(generator.integers(0, 4)) for name in judged} | {str(judged[0]): 2.0}
        rankings[f"q{index}"] = [str(name) for name in generator.permutation(documents)[:100]]
    scored = score_rankings(rankings, qrels)
    expected = ir_measures.calc_aggregate(
        MEASURES.values(),
        {query: {name: int(grade) for name, grade in grades.items()} for query, grades in qrels.items()},
        {query: {name: -float(rank) for rank, name in enumerate(ranked)} for query, ranked in rankings.items()},
    )
    for metric, measure in MEASURES.items():
        assert scored[metric] == pytest.approx(100 * expected[measure], abs=0.006), metric


def test_perfect_ranking_scores_100_over_answered_queries() -> None:
    qrels = {"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 0.0}}
    assert set(score_rankings({"q1": ["a", "b", "c"], "q2": ["c", "b", "a"]}, qrels).values()) == {100.0}
    with pytest.raises(EvaluationError, match="no query of the set has a relevant passage"):
        score_rankings({"q2": ["a"]}, qrels)


def write_bipar(folder: Path) -> None:
    write(folder / "queries.tsv", "q1\ten\taa", "q2\tzh\tbbbb", "q3\ten\tnobody asked")
    write(folder / "passages.tsv", "p1\tzh\tcccc", "p2\ten\tdd", "p3\ten\tee")
    write(folder / "qrels.tsv", "q1\tp3", "q2\tp1")


def write_beir(folder: Path) -> None:
    queries = [{"_id": "q1", "text": "aa"}, {"_id": "q2", "text": "bbbb"}, {"_id": "q3", "text": "of another split"}]
    passages = [
        {"_id": "p1", "title": "", "text": "cccc"},
        {"_id": "p2", "title": "d", "text": ""},
        {"_id": "p3", "text": "ee"},
        {"_id": "q1", "text": "aa"},  # the query itself is among the passages
    ]
    write(folder / "queries.jsonl", *(json.dumps(row) for row in queries))
    write(folder / "corpus.jsonl.gz", *(json.dumps(row) for row in passages))
    write(folder / "qrels/test.tsv", "query-id\tcorpus-id\tscore", "q1\tp3\t2", "q1\tp1\t0", "q2\tp1\t1")


def test_of_equal_passages_the_earlier_ranks_first(tmp_path: Path) -> None:
    write_bipar(tmp_path)
    found = read_retrieval(tmp_path)
    assert found is not None
    assert rank_passages(encode_by_length, found) == {"q1": ["p2", "p3", "p1"], "q2": ["p1", "p2", "p3"]}
    assert evaluate_retrieval(encode_by_length, tmp_path) == {
        "acc@1": 50.0,
        "acc@5": 100.0,
        "acc@10": 100.0,
        "mrr@10": 75.0,  # ranks 2 and 1
        "map@100": 75.0,
        "ndcg@10": round(100 * (1 / math.log2(3) + 1) / 2, 2),
    }


def test_beir_layout_has_titles_grades_and_a_header(tmp_path: Path) -> None:
    write_beir(tmp_path)
    found = read_retrieval(tmp_path)
    assert found is not None
    assert found.passages == {"p1": "cccc", "p2": "d", "p3": "ee", "q1": "aa"}
    assert found.qrels == {"q1": {"p3": 2.0, "p1": 0.0}, "q2": {"p1": 1.0}}
    assert rank_passages(encode_by_length, found)["q1"] == ["p3", "q1", "p2", "p1"]
    assert evaluate_retrieval(encode_by_length, tmp_path)["acc@1"] == 100


def test_a_folder_of_neither_layout_holds_no_set(tmp_path: Path) -> None:
    write_bipar(tmp_path)
    (tmp_path / "qrels.tsv").unlink()
    assert evaluate_retrieval(encode_by_length, tmp_path) == {}


@pytest.mark.parametrize(
    ("write_set", "file", "line", "complaint"),
    [
        (
            write_bipar,
            "queries.tsv",
            "q4",
            "line 1 has 1 columns; the layout is id<TAB>text or id<TAB>language<TAB>text",
        ),
        (write_bipar, "qrels.tsv", "q1\tp1\thigh", "line 1 has a score that is not a number"),
        (write_bipar, "qrels.tsv", "q1\tp1\t1\nq2\tp1\nq1\tp1\t0", "line 3 repeats the query and passage q1, p1"),
        (write_bipar, "qrels.tsv", "q9\tp1", "judges 1 queries that .*queries.tsv lacks"),
        (write_bipar, "qrels.tsv", "q1\tp9", "judges no passage of .*passages.tsv"),
        (write_beir, "queries.jsonl", '{"_id": 1}', "line 1 lacks a key; the layout is a JSON object with"),
        (write_beir, "queries.jsonl", "{", "line 1 .*; the layout is a JSON object with the strings _id, text"),
    ],
)
def test_a_malformed_set_is_one_sentence(tmp_path: Path, write_set, file: str, line: str, complaint: str) -> None:
    write_set(tmp_path)
    write(tmp_path / file, line)
    with pytest.raises(EvaluationError, match=rf"{file} {complaint}"):
        read_retrieval(tmp_path)


@pytest.mark.parametrize("name", ["queries.tsv", "passages.tsv"])
def test_an_id_given_twice_is_refused_with_its_lines(tmp_path: Path, name: str) -> None:
    for file in ("queries.tsv", "passages.tsv"):
        write(tmp_path / file, "1\ta", "2\tbbbb", *(["1\tccc"] if file == name else []))
    write(tmp_path / "qrels.tsv", "1\t1", "2\t2")
    with pytest.raises(EvaluationError, match=rf"{name} line 3 repeats the id 1 of line 1"):
        evaluate_retrieval(encode_by_length, tmp_path)
