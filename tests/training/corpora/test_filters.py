from collections import Counter

import pytest

from training.config.run import CorpusConfig, SourceConfig
from training.corpora.cleaning.filters import PairFilter, length_ratio
from training.corpora.cleaning.language import LanguageCheck
from training.corpora.cleaning.leakage import EvaluationSentences

NONE = EvaluationSentences([])
GERMAN = "Der alte Mann kauft jeden Morgen ein frisches Brot beim Bäcker."
ENGLISH = "The old man buys a fresh loaf of bread from the baker every morning."


def kept_and_dropped(
    pairs: list[tuple[str, str]], *, language: str = "de", evaluation: EvaluationSentences = NONE, **config: object
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    dropped: Counter[str] = Counter()
    kept = PairFilter(CorpusConfig(sources={"news": SourceConfig()}, **config), language, evaluation).keep(
        pairs, dropped
    )
    return kept, dict(+dropped)


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("Hi", " "), "empty"),
        (("Hi" * 600, "Hallo" * 240), "too long"),
        (("Hi", "Hallo, das hier ist doch wirklich sehr viel länger"), "lengths too far apart"),
        (("Berlin, 2020", "BERLIN 2020!"), "identical sides"),
        (("Thanks!", "Besten Dank"), "in an evaluation set"),
        (("Over the lazy dog a quick fox jumps", "Über den faulen Hund"), "near an evaluation sentence"),
    ],
)
def test_each_reason_is_counted_by_name(pair: tuple[str, str], reason: str) -> None:
    evaluation = EvaluationSentences(["thanks", "A quick fox jumps over the lazy dog"])
    assert kept_and_dropped([("Good day", "Guten Tag"), pair], evaluation=evaluation) == (
        [("Good day", "Guten Tag")],
        {reason: 1},
    )


def test_a_filter_that_is_off_drops_nothing() -> None:
    pairs = [("Hi" * 600, "Hallo" * 240), ("Hi", "Hallo, das hier ist doch wirklich sehr viel länger")]
    assert kept_and_dropped(pairs, max_chars=None, max_length_ratio=None) == (pairs, {})


def test_keep_repeats_keeps_duplicates_and_equal_sides() -> None:
    pairs = [("A cat.", "Eine Katze."), ("a cat", "Eine Katze!"), ("Berlin", "Berlin")]
    assert kept_and_dropped(pairs) == (pairs[:1], {"duplicate": 1, "identical sides": 1})
    assert kept_and_dropped(pairs, keep_repeats=True) == (pairs, {})


def test_white_space_is_collapsed_and_the_first_repeat_kept() -> None:
    pairs = [("Good \t day", "Guten\u2028Tag\n"), ("good day!", "guten Tag."), ("Good day", "Schönen Tag")]
    assert kept_and_dropped(pairs) == ([("Good day", "Guten Tag"), ("Good day", "Schönen Tag")], {"duplicate": 1})


def test_a_pair_seen_in_an_earlier_batch_is_a_duplicate() -> None:
    pair_filter, dropped = PairFilter(CorpusConfig(sources={"news": SourceConfig()}), "de", NONE), Counter[str]()
    assert len(pair_filter.keep([("Hi", "Hallo")], dropped)) == 1
    assert pair_filter.keep([("Hi", "Hallo"), ("Hi", "Servus")], dropped) == [("Hi", "Servus")]
    assert dropped["duplicate"] == 1


def test_a_short_chinese_sentence_passes_the_length_ratio() -> None:
    pair = ("The man is playing the guitar in front of his house.", "那个男人在房子前弹吉他。")
    assert length_ratio(*pair, language="zh") < 1.4
    assert length_ratio(*pair, language="zh_Hant") < 1.4
    assert length_ratio(*pair, language="ru") > 2.5
    assert length_ratio("a", "a" * 21, language="de") == pytest.approx(31 / 11)  # ten characters more on either side


def test_an_untranslated_sentence_is_wrong_unless_short() -> None:
    german = LanguageCheck("de")
    assert german.is_wrong(ENGLISH)
    assert not german.is_wrong(GERMAN)
    assert not german.is_wrong(ENGLISH[:19])
    assert LanguageCheck("en").is_wrong(GERMAN)
    assert not LanguageCheck("tlh").is_wrong(ENGLISH)  # Klingon: what the identifier does not know, it cannot miss
    assert not LanguageCheck("nb").is_wrong("Den gamle mannen kjøper et ferskt brød hos bakeren hver eneste morgen.")
    assert not LanguageCheck("zh_Hant").is_wrong("那位老先生每天早上都會到巷口的麵包店買一條剛出爐的新鮮麵包回家。")
