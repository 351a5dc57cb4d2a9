import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from tests.vocabularies import wordpiece
from training.reranking.lexicon import Lexicon, splitter, word_pairs, words_in

NOUNS = {"dog": "hund", "cat": "katze", "house": "haus", "tree": "baum", "book": "buch", "king": "könig"}
VERBS = {"sees": "sieht", "has": "hat", "likes": "mag"}


def letters(run: str) -> list[str]:
    return list(run)


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


def test_words_are_lower_case_runs_of_letters_and_pieces_where_there_are_no_spaces() -> None:
    assert words_in("Don't go, 2 Kühe!", letters) == ["don't", "go", "kühe"]
    assert words_in("वह हिन्दी बोलता है", letters) == ["वह", "हिन्दी", "बोलता", "है"]  # vowel signs belong to their word
    assert words_in("山が高い", letters) == ["山", "が", "高", "い"]
    assert words_in("12 %", letters) == []


def test_parts_of_a_run_are_the_run_by_any_tokenizer() -> None:
    fast = PreTrainedTokenizerFast(tokenizer_object=wordpiece(["山 が 高 高い"]), unk_token="[UNK]")
    split = splitter(fast)
    for run in ("山が高い", "高い山", "龍山", "ﾔﾏ"):  # the last two are unknown
        assert "".join(split(run)) == run
    assert len(split("山が高い")) > 1


def test_each_word_finds_its_translation() -> None:
    pairs = [[words_in(one[language], letters) for language in ("en", "de")] for one in sentences(60)]
    there, back = word_pairs(pairs)
    assert there == {**NOUNS, **VERBS, "the": "das"}
    assert back == {german: english for english, german in there.items()}


def test_languages_meet_in_the_pivot() -> None:
    lexicon = Lexicon.of(sentences(60), ["en", "de", "zh"], letters)
    assert lexicon.pivot == "en"
    assert lexicon.translation("Hund", "de", "en") == "dog"
    assert lexicon.translation("hund", "de", "zh") == "犬"
    assert lexicon.translation("犬", "zh", "de") == "hund"
    assert lexicon.translation("wolf", "de", "zh") is None
    assert lexicon.translation("dog", "en", "fr") is None


def test_a_pair_of_one_sentence_is_no_entry() -> None:
    assert word_pairs([[["once"], ["einmal"]]]) == ({}, {})
    assert word_pairs([]) == ({}, {})
    assert word_pairs([[["dog"] * 50, ["hund"]]] * 5) == ({}, {})  # too long


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=4), st.lists(st.sampled_from("xyz"), max_size=4))))
def test_entries_stand_together_in_a_sentence(rows: list[tuple[list[str], list[str]]]) -> None:
    there, back = word_pairs(rows)
    together = {(one, other) for first, second in rows for one in first for other in second}
    assert set(there.items()) | {(one, other) for other, one in back.items()} <= together
