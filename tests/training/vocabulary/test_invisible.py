"""Invisible characters: out of words, but where a script or an emoji means them; and white space at the ends."""

import unicodedata

import pytest
from tokenizers import normalizers

from tests.training.tiny import corpus_of
from tests.training.vocabulary.test_pruning import CORPUS, KINDS, LEARNT_FROM
from training.config.run import TokenizerConfig
from training.vocabulary.pruning import count_pieces, prune_tokenizer
from training.vocabulary.tokenizer import drop_invisible, dropping_invisible, train_tokenizer

CLEAN = normalizers.Sequence(dropping_invisible())
# Soft hyphen, zero-width space, word joiner, U+FEFF, marks of direction, a variation selector, a joiner, a control.
IN_A_WORD = ["\u00ad", "\u200b", "\u2060", "\ufeff", "\u200e", "\u202a", "\ufe0f", "\u200d", "\u200c", "\x00", "\x1b"]


@pytest.mark.parametrize("character", [*IN_A_WORD, "\u200b\u2060", "\u034f", "\u3164", "\ufffd", "\U000e0041"])
def test_an_invisible_character_does_not_break_a_word(character: str) -> None:
    assert CLEAN.normalize_str(f"re{character}set my pass{character}word") == "reset my password"


MEANT = [
    "می\u200cخواهم",  # Persian "I want": the joiner's absence is spelling
    "क्\u200dष",  # Hindi, a half form
    "👨\u200d👩\u200d👧",  # a family
    "👩🏽\u200d🚒",  # a firefighter, with a skin tone
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # Scotland's flag
    "؀ ۝ ܏",  # format characters that are seen
    *(f"a{space}b" for space in "\t\n\r\x0b\x0c\x85\xa0\u3000"),
]


@pytest.mark.parametrize("text", MEANT, ids=ascii)
def test_what_carries_meaning_stays(text: str) -> None:
    assert CLEAN.normalize_str(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("می\u200c\u200cخواهم", "می\u200cخواهم"),
        ("\u200cسلام\u200c", "سلام"),
        ("👨\u200d ❤\ufe0f\u200d🔥", "👨 ❤\u200d🔥"),
    ],
)
def test_a_joiner_that_joins_nothing_goes(text: str, expected: str) -> None:
    assert CLEAN.normalize_str(text) == expected


def test_every_control_character_goes_but_white_space() -> None:
    controls = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc"]
    assert [one for one in controls if CLEAN.normalize_str(one)] == list("\t\n\x0b\x0c\r\x85")


@KINDS
@pytest.mark.parametrize(
    "text",
    [
        *(f"the qu{character}ick dog" for character in IN_A_WORD),
        *(f"{end}the quick dog{end}" for end in ("\n", "\u2028", "\x85", "\xa0", " \u200b\u3000")),
    ],
    ids=ascii,
)
def test_a_pruned_vocabulary_drops_them_and_space_at_ends(make, text: str) -> None:
    whole = make(LEARNT_FROM)
    drop_invisible(whole)
    pruned, _ = prune_tokenizer(whole, count_pieces(whole, CORPUS), size=10_000)
    assert pruned.encode(text).ids == pruned.encode("the quick dog").ids


@pytest.mark.parametrize("character", IN_A_WORD)
def test_a_new_vocabulary_drops_them_too(character: str) -> None:
    tokenizer = train_tokenizer(corpus_of(CORPUS, CORPUS, "de"), TokenizerConfig(vocab_size=100), seed=1)
    assert tokenizer.encode(f"qu{character}ick").ids == tokenizer.encode("quick").ids
    assert tokenizer.encode(f"\u2028quick{character} \x85").ids == tokenizer.encode("quick").ids
