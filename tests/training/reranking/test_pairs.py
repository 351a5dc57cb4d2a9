from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.errors import CorpusError
from training.reranking.config import MixBy, XpiConfig
from training.reranking.pairs import (
    AlignedPair,
    TextPair,
    cascade,
    language_slots,
    mixed,
    paraphrase_pairs,
    paraphrases_in,
    stages_of,
)

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


def is_mixed(pair: TextPair) -> bool:
    return pair.languages[0] != pair.languages[1]


@given(st.integers(1, 30), st.integers(1, 4), LANGUAGES, st.integers(0, 99))
def test_every_strategy_trains_on_the_same_total(questions: int, each: int, languages: list[str], seed: int) -> None:
    pairs = aligned(questions, each, languages)
    for strategy in ("merged", "cascade", "mixed"):
        stages = stages_of(strategy, pairs, languages, seed=seed)
        assert sum(map(len, stages)) == len(pairs) * len(languages)
        assert len(stages) == (len(languages) if strategy == "cascade" else 1)
    for language, stage in zip(languages, cascade(pairs, languages, seed=seed), strict=True):
        assert {pair.languages for pair in stage} == {(language, language)}


@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 99))
def test_mixed_of_two_languages_has_m_pairs_in_one_and_m_in_two(questions: int, each: int, seed: int) -> None:
    pairs = aligned(questions, each, ["en", "zh"])
    found = mixed(pairs, ["en", "zh"], seed=seed)
    assert sum(is_mixed(pair) for pair in found) == len(pairs)
    by_query = Counter(pair.query for pair in found)
    assert set(by_query.values()) == {each}  # each query stands in each language, once with each of its passages


@given(st.integers(2, 30), st.integers(1, 4), st.integers(0, 99))
def test_mixed_by_question_gives_half_of_the_queries_translations(questions: int, each: int, seed: int) -> None:
    found = mixed(aligned(questions, each, ["en", "zh"]), ["en", "zh"], seed=seed, mix_by="question")
    crossed = {pair.query for pair in found if pair.languages == ("en", "zh")}
    assert len(crossed) == questions // 2
    chinese_mono = {pair.query for pair in found if pair.languages == ("zh", "zh")}
    assert {query.replace("en", "zh") for query in crossed} == chinese_mono  # their counterparts stay Chinese


@given(st.integers(2, 30), st.integers(1, 4), st.integers(0, 99))
def test_mixed_by_pair_gives_half_of_the_english_pairs_translations(questions: int, each: int, seed: int) -> None:
    pairs = aligned(questions, each, ["en", "zh"])
    found = mixed(pairs, ["en", "zh"], seed=seed)
    crossed = {(pair.query[3:], pair.passage[3:]) for pair in found if pair.languages == ("en", "zh")}
    assert len(crossed) == len(pairs) // 2
    assert crossed == {(pair.query[3:], pair.passage[3:]) for pair in found if pair.languages == ("zh", "zh")}


@pytest.mark.parametrize(("mix_by", "both"), [("pair", True), ("question", False)])
def test_negatives_of_a_question_come_in_both_languages_by_pair(mix_by: MixBy, both: bool) -> None:
    found = mixed(aligned(30, 9, ["en", "zh"]), ["en", "zh"], seed=1, mix_by=mix_by)
    languages: dict[str, set[str]] = {}
    for pair in found:
        if not pair.label:
            languages.setdefault(pair.query, set()).add(pair.languages[1])
    assert {len(of_query) for of_query in languages.values()} == ({2} if both else {1})


@given(st.integers(1, 20), LANGUAGES, st.integers(0, 99))
def test_mixing_changes_languages_and_neither_meaning_nor_label(
    questions: int, languages: list[str], seed: int
) -> None:
    pairs = mixed(aligned(questions, 2, languages), languages, seed=seed)
    assert pairs == mixed(aligned(questions, 2, languages), languages, seed=seed)
    for pair in pairs:
        question, passage = pair.query.split("q")[1], pair.passage.split("p")[-1]
        assert (pair.query[:2], pair.passage[:2]) == pair.languages
        assert passage.split(".")[0] == question
        assert pair.label == float(passage.endswith(".0"))


def test_pairs_in_one_language_pass_through_every_strategy() -> None:
    pairs = [AlignedPair(0, {"ja": "q"}, {"ja": "p"}, True), AlignedPair(1, {"de": "q"}, {"es": "p"}, True)]
    languages = ["de", "es", "ja"]
    for strategy in ("merged", "cascade", "mixed"):
        (found,) = [[pair.languages for stage in stages_of(strategy, pairs, languages, seed=1) for pair in stage]]
        assert sorted(found) == [("de", "es"), ("ja", "ja")]


EN_ZH = [{"en": f"en {index}", "zh": f"zh {index // 2}"} for index in range(40)]  # two English share a Chinese one


def xpi(count: int, *, seed: int, mono: str = "paraphrases") -> list[TextPair]:
    settings = XpiConfig(sources=[], count=count, mono_positives=mono)
    return paraphrase_pairs(EN_ZH, ["en", "zh"], settings, seed=seed)


def meaning(text: str) -> tuple[str, int]:
    language, number = text.split()
    return language, int(number) // 2 if language == "en" else int(number)


@given(st.integers(0, 400), st.integers(0, 99))
def test_a_quarter_is_in_each_language_and_half_is_mixed(count: int, seed: int) -> None:
    slots = Counter(language_slots(4 * count, ["en", "zh"], [("en", "zh"), ("zh", "en")], seed=seed))
    assert slots["en", "en"] == slots["zh", "zh"] == count
    assert slots["en", "zh"] + slots["zh", "en"] == 2 * count
    assert abs(slots["en", "zh"] - count) <= 5 * (count / 2) ** 0.5  # standard deviations of a fair coin


@given(st.integers(2, 200), st.integers(0, 99), st.sampled_from(["paraphrases", "none"]))
def test_positives_mean_the_same_and_negatives_do_not(count: int, seed: int, mono: str) -> None:
    for pair in xpi(count, seed=seed, mono=mono):
        same = meaning(pair.query)[1] == meaning(pair.passage)[1]
        assert (pair.query.split()[0], pair.passage.split()[0]) == pair.languages
        assert pair.query != pair.passage
        assert same == bool(pair.label)


def test_mono_positives_need_the_option_and_a_shared_translation() -> None:
    with_them, without = (xpi(400, seed=1, mono=mono) for mono in ("paraphrases", "none"))
    assert {pair.languages for pair in with_them if pair.label and not is_mixed(pair)} == {("en", "en")}
    assert not [pair for pair in without if pair.label and not is_mixed(pair)]
    assert [pair.languages for pair in without] == [pair.languages for pair in with_them]
    assert {pair.label for pair in without if is_mixed(pair)} == {0.0, 1.0}


def test_paraphrases_share_a_translation() -> None:
    found = paraphrases_in(EN_ZH[:4], ["en", "zh"])
    assert found == {"en": [("en 0", "en 1"), ("en 2", "en 3")], "zh": []}


def test_a_language_without_text_is_refused() -> None:
    with pytest.raises(CorpusError, match="two sentences at least in de; the parallel text has 0"):
        paraphrase_pairs(EN_ZH, ["en", "zh", "de"], XpiConfig(sources=[]), seed=1)
