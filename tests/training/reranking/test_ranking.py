from collections import Counter
from dataclasses import replace

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, Success, nDCG

from tests.training.reranking.small import collection_in
from training.errors import EvaluationError
from training.reranking.ranking import RankingSet, mixed_test_set, score_ranking, set_in_languages

LANGUAGES = st.lists(st.sampled_from(["en", "zh", "de", "fr", "ar"]), min_size=2, max_size=4, unique=True)
MEASURES = {"acc@1": Success @ 1, "acc@10": Success @ 10, "mrr": RR, "map": AP, "ndcg@10": nDCG @ 10}


def a_set(candidates: list[list[int]], positives: list[set[int]]) -> RankingSet:
    return RankingSet(
        [f"q{index}" for index in range(len(candidates))],
        [f"p{index}" for index in range(200)],
        [np.array(row) for row in candidates],
        [frozenset(row) for row in positives],
    )


def test_metrics_agree_with_ir_measures_over_the_whole_list() -> None:
    generator = np.random.default_rng(0)
    candidates = [generator.permutation(200)[: generator.integers(20, 150)].tolist() for _ in range(40)]
    positives = [
        set(generator.choice(row, size=generator.integers(1, 5), replace=False).tolist()) for row in candidates
    ]
    found = a_set(candidates, positives)
    scores = [generator.standard_normal(len(row)).astype(np.float32) for row in candidates]
    expected = ir_measures.calc_aggregate(
        MEASURES.values(),
        {f"q{q}": {f"p{index}": 1 for index in row} for q, row in enumerate(positives)},
        {
            f"q{q}": {f"p{index}": float(score) for index, score in zip(row, scores[q], strict=True)}
            for q, row in enumerate(candidates)
        },
    )
    measured = score_ranking(found, scores)
    for metric, measure in MEASURES.items():
        assert measured[metric] == pytest.approx(100 * expected[measure], abs=0.006), metric


@pytest.mark.parametrize("candidates", [[7, 8, 9], [8, 7, 9], [8, 9, 7]])
def test_an_answer_is_behind_those_of_equal_score(candidates: list[int]) -> None:
    found = score_ranking(a_set([candidates], [{7}]), [np.zeros(3, dtype=np.float32)])
    assert (found["acc@1"], found["mrr"]) == (0, pytest.approx(33.33))
    of_two = score_ranking(a_set([candidates], [{7, 8}]), [np.zeros(3, dtype=np.float32)])
    assert of_two["mrr"] == 50


def test_no_query_and_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(EvaluationError, match="no query"):
        score_ranking(a_set([], []), [])
    with pytest.raises(EvaluationError, match="not finite"):
        score_ranking(a_set([[1]], [{1}]), [np.array([np.nan], dtype=np.float32)])


def test_fewer_candidates_keep_the_positives() -> None:
    found = a_set([list(range(100))], [{4, 90}]).with_candidates(10, seed=0)
    assert len(found.candidates[0]) == 10
    assert {4, 90} <= set(found.candidates[0].tolist())


@given(st.integers(1, 40), st.integers(1, 21), LANGUAGES, st.integers(0, 99))
def test_a_mixed_set_has_equal_shares_of_passages(
    questions: int, passages: int, languages: list[str], seed: int
) -> None:
    found = mixed_test_set(collection_in(languages, questions, passages), languages, seed=seed)
    shares = Counter(passage[:2] for passage in found.passages)
    assert len(found.passages) == passages
    assert all(passages // len(languages) <= shares[name] <= -(-passages // len(languages)) for name in languages)
    assert len(found) == questions
    for query, positives in zip(found.queries, found.positives, strict=True):
        (answer,) = positives
        assert int(found.passages[answer].split("p")[1]) == int(query.split("q")[1]) % passages


@given(st.integers(1, 10), st.integers(2, 21), LANGUAGES, st.integers(0, 99))
def test_a_questions_own_candidates_are_dealt_for_it(
    questions: int, count: int, languages: list[str], seed: int
) -> None:
    """InsuranceQA has 500 candidates a question, of which the paper translates 250."""
    whole = collection_in(languages, questions, 40)
    pools = whole.with_questions(
        replace(
            question, candidates=(question.positives[0], *((question.positives[0] + n) % 40 for n in range(1, count)))
        )
        for question in whole.questions
    )
    found = mixed_test_set(pools, languages, seed=seed)
    for row, positives in zip(found.candidates, found.positives, strict=True):
        shares = Counter(found.passages[index][:2] for index in row)
        assert len(row) == count
        assert all(count // len(languages) <= shares[name] <= -(-count // len(languages)) for name in languages)
        assert positives <= set(row.tolist())


def test_a_set_in_two_languages_has_its_texts_in_these() -> None:
    found = set_in_languages(collection_in(["en", "zh"], 3, 2), "zh", "en")
    assert found.queries == ["zh q0", "zh q1", "zh q2"]
    assert found.passages == ["en p0", "en p1"]
