from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from training.reranking.collection import Collection, Question
from training.reranking.mixing import AlignedPair, cascade, mixed, mixed_test_set, set_in_languages, stages_of

LANGUAGES = st.lists(st.sampled_from(["en", "zh", "de", "fr", "ar"]), min_size=2, max_size=4, unique=True)


def aligned(questions: int, each: int, languages: list[str]) -> list[AlignedPair]:
    return [
        AlignedPair(
            question,
            {language: f"{language} q{question}" for language in languages},
            {language: f"{language} p{question}.{number}" for language in languages},
            number == 0,
        )
        for question in range(questions)
        for number in range(each)
    ]


def collection_in(languages: list[str], questions: int, passages: int) -> Collection:
    return Collection(
        tuple(
            Question({name: f"{name} q{index}" for name in languages}, (index % passages,))
            for index in range(questions)
        ),
        tuple({name: f"{name} p{index}" for name in languages} for index in range(passages)),
    )


@given(st.integers(1, 30), st.integers(1, 4), LANGUAGES, st.integers(0, 99))
def test_every_strategy_trains_on_the_same_total(questions: int, each: int, languages: list[str], seed: int) -> None:
    pairs = aligned(questions, each, languages)
    for strategy in ("merged", "cascade", "mixed"):
        stages = stages_of(strategy, pairs, languages, seed=seed)
        assert sum(map(len, stages)) == len(pairs) * len(languages)
        assert len(stages) == (len(languages) if strategy == "cascade" else 1)


@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 99))
def test_mixed_of_two_languages_has_m_pairs_in_one_and_m_in_two(questions: int, each: int, seed: int) -> None:
    pairs = aligned(questions, each, ["en", "zh"])
    found = mixed(pairs, ["en", "zh"], seed=seed)
    assert sum(pair.is_mixed for pair in found) == len(pairs)
    by_query = Counter(pair.query for pair in found)
    assert set(by_query.values()) == {each}  # each query stands in each language, once with each of its passages


@given(st.integers(2, 30), st.integers(1, 4), st.integers(0, 99))
def test_mixed_gives_half_of_the_english_queries_the_translation(questions: int, each: int, seed: int) -> None:
    found = mixed(aligned(questions, each, ["en", "zh"]), ["en", "zh"], seed=seed)
    crossed = {pair.query for pair in found if pair.languages == ("en", "zh")}
    assert len(crossed) == questions // 2
    chinese_mono = {pair.query for pair in found if pair.languages == ("zh", "zh")}
    assert {query.replace("en", "zh") for query in crossed} == chinese_mono  # their counterparts stay Chinese


@given(st.integers(1, 20), LANGUAGES, st.integers(0, 99))
def test_mixing_changes_languages_and_neither_meaning_nor_label(
    questions: int, languages: list[str], seed: int
) -> None:
    for pair in mixed(aligned(questions, 2, languages), languages, seed=seed):
        question, passage = pair.query.split("q")[1], pair.passage.split("p")[-1]
        assert (pair.query[:2], pair.passage[:2]) == pair.languages
        assert passage.split(".")[0] == question
        assert pair.label == float(passage.endswith(".0"))


@given(st.integers(1, 20), LANGUAGES, st.integers(0, 99))
def test_the_same_seed_gives_the_same_pairs(questions: int, languages: list[str], seed: int) -> None:
    pairs = aligned(questions, 2, languages)
    assert mixed(pairs, languages, seed=seed) == mixed(pairs, languages, seed=seed)


def test_pairs_in_one_language_pass_through_every_strategy() -> None:
    pairs = [AlignedPair(0, {"ja": "q"}, {"ja": "p"}, True), AlignedPair(1, {"de": "q"}, {"es": "p"}, True)]
    languages = ["de", "es", "ja"]
    for strategy in ("merged", "cascade", "mixed"):
        (found,) = [[pair.languages for stage in stages_of(strategy, pairs, languages, seed=1) for pair in stage]]
        assert sorted(found) == [("de", "es"), ("ja", "ja")]


def test_cascade_is_one_language_after_the_other() -> None:
    first, second = cascade(aligned(3, 2, ["en", "zh"]), ["en", "zh"], seed=0)
    assert {pair.languages for pair in first} == {("en", "en")}
    assert {pair.languages for pair in second} == {("zh", "zh")}


@given(st.integers(1, 40), st.integers(1, 21), LANGUAGES, st.integers(0, 99))
def test_a_mixed_test_set_replaces_an_equal_share_of_the_passages(
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


def test_a_set_in_two_languages_has_its_texts_in_these() -> None:
    found = set_in_languages(collection_in(["en", "zh"], 3, 2), "zh", "en")
    assert found.queries == ["zh q0", "zh q1", "zh q2"]
    assert found.passages == ["en p0", "en p1"]
