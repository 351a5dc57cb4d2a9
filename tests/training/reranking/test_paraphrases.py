from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.errors import CorpusError
from training.reranking.paraphrases import Parallel, language_slots, paraphrase_pairs, paraphrases_in

EN_ZH = [{"en": f"en {index}", "zh": f"zh {index // 2}"} for index in range(40)]  # two English share a Chinese one


def meaning(text: str) -> tuple[str, int]:
    language, number = text.split()
    return language, int(number) // 2 if language == "en" else int(number)


@given(st.integers(0, 400), st.integers(0, 99))
def test_a_quarter_is_in_each_language_and_half_is_mixed(count: int, seed: int) -> None:
    slots = Counter(language_slots(4 * count, ["en", "zh"], [("en", "zh"), ("zh", "en")], seed=seed))
    assert slots["en", "en"] == slots["zh", "zh"] == count
    assert slots["en", "zh"] + slots["zh", "en"] == 2 * count


def test_the_coin_translates_either_side() -> None:
    slots = Counter(language_slots(4_000, ["en", "zh"], [("en", "zh"), ("zh", "en")], seed=0))
    assert abs(slots["en", "zh"] - 1_000) < 100  # 4.5 standard deviations of a fair coin


@given(st.integers(1, 200), st.integers(0, 99), st.sampled_from(["paraphrases", "none"]))
def test_positives_mean_the_same_and_negatives_do_not(count: int, seed: int, mono: str) -> None:
    parallel = Parallel.of(EN_ZH, ["en", "zh"])
    for pair in paraphrase_pairs(parallel, ["en", "zh"], count, seed=seed, mono_positives=mono):
        same = meaning(pair.query)[1] == meaning(pair.passage)[1]
        assert (pair.query.split()[0], pair.passage.split()[0]) == pair.languages
        assert pair.query != pair.passage
        assert same == bool(pair.label)


def test_positives_in_one_language_are_there_by_option_and_where_a_translation_is_shared() -> None:
    parallel = Parallel.of(EN_ZH, ["en", "zh"])
    with_them = paraphrase_pairs(parallel, ["en", "zh"], 400, seed=1, mono_positives="paraphrases")
    without = paraphrase_pairs(parallel, ["en", "zh"], 400, seed=1, mono_positives="none")
    assert {pair.languages for pair in with_them if pair.label and not pair.is_mixed} == {("en", "en")}
    assert not [pair for pair in without if pair.label and not pair.is_mixed]
    assert [pair.languages for pair in without] == [pair.languages for pair in with_them]
    assert {pair.label for pair in without if pair.is_mixed} == {0.0, 1.0}


def test_paraphrases_share_a_translation() -> None:
    found = paraphrases_in(EN_ZH[:4], ["en", "zh"])
    assert found == {"en": [("en 0", "en 1"), ("en 2", "en 3")], "zh": []}


def test_a_language_without_text_is_refused() -> None:
    with pytest.raises(CorpusError, match="two sentences at least in de; the parallel text has 0"):
        Parallel.of(EN_ZH, ["en", "zh", "de"])
