from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from tests.vocabularies import wordpiece
from training.reranking.code_switching import Lexicon, code_switch, splitter, switched, word_pairs, words_in
from training.reranking.config import CodeSwitchConfig
from training.reranking.pairs import TextPair

NOUNS = {"dog": "hund", "cat": "katze", "house": "haus", "tree": "baum", "book": "buch", "king": "könig"}
VERBS = {"sees": "sieht", "has": "hat", "likes": "mag"}


def sentences(count: int, *, seed: int = 0) -> list[dict[str, str]]:
    """ "the dog sees the house", the same in German and in a language of Han characters."""
    generator = np.random.default_rng(seed)
    han = dict(zip([*NOUNS, *VERBS], "犬猫家木本王見有好", strict=True))
    found = []
    for _ in range(count):
        one, other = generator.choice(list(NOUNS), 2, replace=False).tolist()
        verb = str(generator.choice(list(VERBS)))
        german = f"Das {NOUNS[one]} {VERBS[verb]} das {NOUNS[other]}."
        found.append({"en": f"The {one} {verb} the {other}.", "de": german, "zh": han[one] + han[verb] + han[other]})
    return found


def test_words_are_runs_of_letters_or_pieces_of_unspaced_text() -> None:
    assert words_in("Don't go, 2 Kühe!", list) == ["don't", "go", "kühe"]
    assert words_in("वह हिन्दी बोलता है", list) == ["वह", "हिन्दी", "बोलता", "है"]  # vowel signs belong to their word
    assert words_in("山が高い", list) == ["山", "が", "高", "い"]
    assert words_in("12 %", list) == []


def test_parts_of_a_run_are_the_run_by_any_tokenizer() -> None:
    fast = PreTrainedTokenizerFast(tokenizer_object=wordpiece(["山 が 高 高い"]), unk_token="[UNK]")
    split = splitter(fast)
    for run in ("山が高い", "高い山", "龍山", "ﾔﾏ"):  # the last two are unknown
        assert "".join(split(run)) == run
    assert len(split("山が高い")) > 1


def test_each_word_finds_its_translation() -> None:
    pairs = [[words_in(one[language], list) for language in ("en", "de")] for one in sentences(60)]
    there, back = word_pairs(pairs)
    assert there == {**NOUNS, **VERBS, "the": "das"}
    assert back == {german: english for english, german in there.items()}


def test_languages_meet_in_the_pivot() -> None:
    lexicon = Lexicon.of(sentences(60), ["en", "de", "zh"], list)
    assert lexicon.pivot == "en"
    assert lexicon.translation("Hund", "de", "en") == "dog"
    assert lexicon.translation("hund", "de", "zh") == "犬"
    assert lexicon.translation("犬", "zh", "de") == "hund"
    assert lexicon.translation("wolf", "de", "zh") is None
    assert lexicon.translation("dog", "en", "fr") is None


@pytest.mark.parametrize("sentences", [[], [[["once"], ["einmal"]]], [[["dog"] * 50, ["hund"]]] * 5])
def test_rare_words_and_long_sentences_make_no_entry(sentences: list[list[list[str]]]) -> None:
    assert word_pairs(sentences) == ({}, {})


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=4), st.lists(st.sampled_from("xyz"), max_size=4))))
def test_entries_stand_together_in_a_sentence(rows: list[tuple[list[str], list[str]]]) -> None:
    there, back = word_pairs(rows)
    together = {(one, other) for first, second in rows for one in first for other in second}
    assert set(there.items()) | {(one, other) for other, one in back.items()} <= together


WORDS = {"who": "wer", "sees": "sieht", "dog": "hund"}
HAN = {"who": "誰", "dog": "犬"}


LEXICON = Lexicon(
    "en",
    of_pivot={"de": WORDS, "zh": HAN},
    to_pivot={name: {other: word for word, other in words.items()} for name, words in (("de", WORDS), ("zh", HAN))},
    split=list,
)


def in_german(text: str, *, words: float = 1.0) -> str:
    return switched(text, "en", "de", LEXICON, words=words, generator=np.random.default_rng(0))


def test_known_words_are_translated_and_all_else_stays() -> None:
    assert in_german("Who is Rex, 2 dogs?") == "Who is Rex, 2 dogs?"  # most of its words are not known
    assert in_german("Who sees the 2nd dog?") == "wer sieht the 2nd hund?"
    assert in_german("Who sees the dog?", words=0.0) == "Who sees the dog?"
    assert in_german("who  sees", words=0.0) == "who  sees"  # its spaces, too
    assert in_german("") == ""


def test_words_without_spaces_between_them_get_spaces() -> None:
    for text, expected in (("誰犬?", "wer hund ?"), ("誰2犬", "wer 2 hund"), ("iPhone犬", "iPhone hund")):
        assert switched(text, "zh", "de", LEXICON, words=1.0, generator=np.random.default_rng(0)) == expected


def pairs_of(count: int) -> list[TextPair]:
    """A question with a positive and three negatives each, in English; and as many German passages."""
    english = [
        TextPair(f"who sees dog {number}", f"passage {number} {place}", ("en", "en"), float(place == 0), number)
        for number in range(count)
        for place in range(4)
    ]
    return [*english, *(TextPair("wer", f"text {number}", ("de", "de"), 0.0) for number in range(count))]


def in_german_or_english(pairs: list[TextPair], *, share: float, foreign: float, seed: int) -> list[TextPair]:
    settings = CodeSwitchConfig(sources=[], share=share, words=1.0, foreign=foreign)
    return code_switch(pairs, ["en", "de"], LEXICON, settings, seed=seed)


@given(st.integers(0, 30), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_counts_labels_and_positives_stay(count: int, share: float, foreign: float, seed: int) -> None:
    before = pairs_of(count)
    after = in_german_or_english(before, share=share, foreign=foreign, seed=seed)
    assert [pair.label for pair in after] == [pair.label for pair in before]
    assert [pair.passage for pair in after if pair.label] == [pair.passage for pair in before if pair.label]
    assert after == in_german_or_english(before, share=share, foreign=foreign, seed=seed)
    queries: dict[str, set[str]] = {}
    for old, new in zip(before, after, strict=True):
        queries.setdefault(old.query, set()).add(new.query)
        assert new.passage == old.passage or new.languages in (("de", "de"), ("en", "en"))
        assert new.passage.startswith("text" if new.languages[1] == "de" else "passage")
    assert all(len(found) == 1 for found in queries.values())  # one question, one text, before all its passages


def test_a_right_answer_never_becomes_a_wrong_one() -> None:
    before = [
        TextPair("who sees dog", "the dog is seen", ("en", "en"), 1.0, 7),
        TextPair("wer sieht hund", "der hund wird gesehen", ("de", "de"), 1.0, 7),
        *(TextPair("who sees dog", f"wrong {number}", ("en", "en"), 0.0, 7) for number in range(50)),
    ]
    after = in_german_or_english(before, share=1.0, foreign=1.0, seed=0)
    assert {pair.query for pair in after if not pair.label} == {"wer sieht hund"}
    assert {pair.passage for pair in after if not pair.label} == {f"wrong {number}" for number in range(50)}


def test_a_share_of_questions_is_switched_with_its_negatives() -> None:
    after = in_german_or_english(pairs_of(2_000), share=0.5, foreign=0.4, seed=1)
    english = after[:8_000]
    changed = [pair for pair in english if pair.query.startswith("wer sieht hund")]
    assert abs(len(changed) / len(english) - 0.5) < 0.05
    assert {pair.languages[0] for pair in changed} == {"de"}
    foreign = Counter(pair.languages[1] for pair in changed if not pair.label)
    assert abs(foreign["de"] / foreign.total() - 0.4) < 0.05
    assert {pair.languages[1] for pair in changed if pair.label} == {"en"}
