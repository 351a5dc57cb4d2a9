import numpy as np

from tests.training.reranking.small import collection_in
from training.reranking.collection import Collection, Question
from training.reranking.negatives import (
    aligned_pairs,
    hard_negatives,
    joined_negatives,
    near_negatives,
    random_negatives,
)


def test_random_negatives_never_answer_and_are_as_many_as_asked() -> None:
    collection = collection_in(["en", "zh"], 30, 7)
    for question, negatives in zip(collection.questions, random_negatives(collection, 4, seed=0), strict=True):
        assert len(set(negatives)) == 4
        assert not set(negatives) & set(question.positives)


def test_random_negatives_come_from_the_candidates_if_any() -> None:
    passages = tuple({"en": str(index)} for index in range(100))
    collection = Collection((Question({"en": "q"}, (3,), (3, 50, 60)),), passages)
    assert set(random_negatives(collection, 5, seed=0)[0]) == {50, 60}


def test_near_negatives_stand_close_to_the_answer_in_the_file() -> None:
    collection = collection_in(["en", "zh"], 30, 100)
    found = near_negatives(collection, 4, depth=10, seed=0)
    for question, negatives in zip(collection.questions, found, strict=True):
        (answer,) = question.positives
        assert len(set(negatives) - {answer}) == 4
        assert all(abs(index - answer) < 10 for index in negatives)


def test_near_negatives_of_the_last_passage_are_those_before_it() -> None:
    passages = tuple({"en": str(index)} for index in range(50))
    collection = Collection((Question({"en": "q"}, (49,)), Question({"en": "r"}, (30,), (30, 2, 40))), passages)
    last, among_candidates = near_negatives(collection, 3, depth=4, seed=0)
    assert set(last) == {46, 47, 48}
    assert set(among_candidates) == {2, 40}


def test_hard_negatives_are_the_nearest_that_do_not_answer() -> None:
    collection = collection_in(["en"], 1, 6)
    angle = {f"en p{index}": 0.2 * index for index in range(6)} | {"en q0": 0.0}

    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[np.cos(angle[text]), np.sin(angle[text])] for text in texts], dtype=np.float32)

    (found,) = hard_negatives(collection, 2, encode, encode, depth=2, seed=0)
    assert set(found) == {1, 2}  # p0 answers


def test_hard_negatives_share_languages_or_are_candidates() -> None:
    passages = ({"en": "0", "de": "0"}, {"en": "1", "fr": "1"}, {"en": "2", "de": "2"}, {"en": "3", "de": "3"})
    questions = (Question({"en": "0"}, (0,)), Question({"en": "1"}, (1,), (0, 1, 3)))

    def encode(texts: list[str]) -> np.ndarray:
        angles = np.array([0.1 * int(text) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    found = hard_negatives(Collection(questions, passages), 1, encode, encode, depth=1, seed=0)
    assert found == [(2,), (0,)]


def test_joined_negatives_are_half_each_without_repeats() -> None:
    first, second = [(0, 1, 2, 3), (0, 1, 2), (5,)], [(7, 8, 9, 10), (1, 0, 9), (6,)]
    assert joined_negatives(first, second, 4) == [(0, 1, 7, 8), (0, 1, 9, 2), (5, 6)]
    assert joined_negatives(first, second, 3)[0] == (0, 1, 7)


def test_questions_are_paired_with_positives_and_negatives() -> None:
    collection = collection_in(["en"], 2, 3)
    found = aligned_pairs(collection, [(1, 2), (0,)])
    assert [(pair.question, pair.passage["en"], pair.is_positive) for pair in found] == [
        (0, "en p0", True), (0, "en p1", False), (0, "en p2", False), (1, "en p1", True), (1, "en p0", False),
    ]  # fmt: skip
