import gzip
import json
import tracemalloc
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.files import write
from training.config.run import CorpusConfig, SourceConfig
from training.corpora.filters import PairFilter, length_ratio
from training.corpora.hashes import FIRST_SLOTS, HashIndex, hash_keys
from training.corpora.keys import MOST_MARKS, matching_key, matching_words
from training.corpora.leakage import SHIPPED, EvaluationSentences, check_no_leakage
from training.errors import LeakageError

NONE = EvaluationSentences([])


def kept_and_dropped(
    pairs: list[tuple[str, str]], *, language: str = "de", evaluation: EvaluationSentences = NONE, **config: object
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    dropped: Counter[str] = Counter()
    kept = PairFilter(CorpusConfig(sources={"news": SourceConfig()}, **config), language, evaluation).keep(
        pairs, dropped
    )
    return kept, dict(+dropped)


LONG_PAIR = ("Hi" * 600, "Hallo" * 240)
UNEVEN = ("Hi", "Hallo, das hier ist doch wirklich sehr viel länger")


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("Hi", " "), "empty"),
        (LONG_PAIR, "too long"),
        (UNEVEN, "lengths too far apart"),
        (("Berlin, 2020", "BERLIN 2020!"), "identical sides"),
        (("good  day!", "guten Tag."), "duplicate"),
        (("Thanks!", "Besten Dank"), "in an evaluation set"),
        (("Over the lazy dog a quick fox jumps", "Über den faulen Hund"), "near an evaluation sentence"),
    ],
)
def test_each_reason_is_counted_by_name(pair: tuple[str, str], reason: str) -> None:
    evaluation = EvaluationSentences(["thanks", "A quick fox jumps over the lazy dog"])
    pairs = [("Good \t day", "Guten\u2028Tag\n"), pair, ("Good day", "Schönen Tag")]
    kept = [("Good day", "Guten Tag"), ("Good day", "Schönen Tag")]  # white space is collapsed
    assert kept_and_dropped(pairs, evaluation=evaluation) == (kept, {reason: 1})


@pytest.mark.parametrize(
    ("pairs", "off"),
    [
        ([LONG_PAIR, UNEVEN], {"max_chars": None, "max_length_ratio": None}),
        ([("A cat.", "Eine Katze."), ("a cat", "Eine Katze!"), ("Berlin", "Berlin")], {"keep_repeats": True}),
    ],
)
def test_a_filter_that_is_off_drops_nothing(pairs: list[tuple[str, str]], off: dict) -> None:
    assert kept_and_dropped(pairs, **off) == (pairs, {})


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


@given(st.lists(st.lists(st.integers(0, 50), max_size=30), max_size=8))
def test_hashes_are_numbered_as_a_dictionary_numbers_them(batches: list[list[int]]) -> None:
    index, expected = HashIndex(), dict[int, int]()
    for batch in batches:
        numbers, is_new = index.add(np.array(batch, dtype=np.uint64))
        for value, number, new in zip(batch, numbers, is_new, strict=True):
            assert new == (value not in expected)
            assert number == expected.setdefault(value, len(expected))
    assert len(index) == len(expected)


def test_a_growing_index_keeps_colliding_hashes_apart() -> None:
    index, count = HashIndex(), 3 * FIRST_SLOTS
    crowded = np.arange(count, dtype=np.uint64) * np.uint64(FIRST_SLOTS // 64)  # 64 homes among the first slots
    hashes = np.concatenate(
        [crowded[:500], np.random.default_rng(0).integers(1 << 62, 1 << 63, count, dtype=np.uint64)]
    )
    for start in range(0, len(hashes), 10_000):
        numbers, is_new = index.add(hashes[start : start + 10_000])
        assert is_new.all()
        assert np.array_equal(numbers, np.arange(start, start + len(numbers)))
    again, is_new = index.add(hashes[::-1])
    assert not is_new.any()
    assert np.array_equal(again, np.arange(len(hashes))[::-1])


def test_a_key_has_one_hash_in_every_process() -> None:
    assert hash_keys(["a", "b", "a"]).tolist() == [hash_keys([key])[0] for key in "aba"]
    assert hash_keys(["crosslet"]).tobytes().hex() == "8c6f45b5ab5bd8f1"  # b2sum -l 64
    assert len(set(hash_keys(map(str, range(10_000))).tolist())) == 10_000


def test_an_index_takes_at_most_24_bytes_a_key() -> None:
    generator = np.random.default_rng(0)
    tracemalloc.start()
    index, worst = HashIndex(), 0.0
    for _ in range(100):
        index.add(generator.integers(0, 1 << 63, 10_000, dtype=np.uint64))
        worst = max(worst, tracemalloc.get_traced_memory()[0] / max(len(index), FIRST_SLOTS))
    tracemalloc.stop()
    assert worst <= 24.5  # and 0.5 for what does not grow


SAME = {  # a sentence, and its spelling in other case, width, spacing or punctuation
    "ar": ("ذهبتُ إلى المكتبة، ثم عدت.", "ذهبت إلى المكتبة ثم عدت"),
    "cs": ("Příliš žluťoučký kůň.", "PŘÍLIŠ ŽLUŤOUČKÝ KŮŇ"),
    "de": ("Die Straße ist „groß“.", "DIE STRASSE IST GROSS"),
    "en": ("Don't cost 1.5 € – or 10–15 %!", "dont  COST １.５ €, or 10-15%"),
    "es": ("¿Dónde está el niño?", "dónde está EL NIÑO"),
    "fr": ("L´été, où « ça » va ?", "l’ÉTÉ, OÙ ça va"),
    "hi": ("लड़का खेलता है।", "  लड\u093cका खेलता  है"),
    "id": ("Anak-anak bermain.", "anak anak Bermain"),
    "it": ("Perché no? È così.", "PERCHÉ NO, è così"),
    "ja": ("コーヒーを、ください。", "ｺｰﾋｰを ください!"),
    "ko": ("안녕하세요. 반갑습니다", unicodedata.normalize("NFD", "안녕하세요, 반갑습니다!")),
    "nl": ("Zo'n café, hè?", "ZO’N CAFÉ hè"),
    "pl": ("Zażółć gęślą jaźń!", "ZAŻÓŁĆ GĘŚLĄ JAŹŃ"),
    "pt": ("Não há ação.", "NÃO HÁ AÇÃO"),
    "ru": ("За́мок — это ёлка?", "замок это ЁЛКА"),
    "tr": ("Işık ve İstanbul, ışığı gör.", "IŞIK VE İSTANBUL IŞIĞI GÖR"),
    "vi": ("Tiếng Việt rất đẹp.", unicodedata.normalize("NFD", "TIẾNG VIỆT rất đẹp")),
    "zh": ("我们今天，去图书馆。", "我们 今天 去 图书馆！"),
    "th": ("ฉันไม่ไป", "ฉัน ไม่ ไป!"),
    "he": ("שָׁלוֹם, עולם", "שלום עולם"),
    "fa": ("می\u200cخواهم", "میخواهم."),
    "bracket": ("It is cold (-5).", "it is cold -5"),
    "emoji": ("Great \u2764\ufe0f", "great \u2764!"),
}
DIFFERENT = {  # two sentences
    "ar": ("هذا كلب", "هذا قلب"),
    "cs": ("Chci dát byt", "Chci dát být"),
    "de": ("schon gut", "schön gut"),
    "en": ("I write C++", "I write C#"),
    "es": ("el año", "el ano"),
    "fr": ("il pêche", "il pèche"),
    "hi": ("लड़का आया", "लड़की आयी"),
    "id": ("harga 1.5 juta", "harga 15 juta"),
    "it": ("la metà", "la meta"),
    "ja": ("はは", "ぱぱ"),
    "ko": ("나", "너"),
    "nl": ("hé", "he"),
    "pl": ("sad", "sąd"),
    "pt": ("avó", "avô"),
    "ru": ("мой", "мои"),
    "tr": ("sınır", "sinir"),
    "vi": ("mà", "má"),
    "zh": ("买书", "卖书"),
    "th": ("ปี", "ปู"),
    "ta": ("காலை", "கலை"),
    "bn": ("দিন", "দান"),
    "sign": ("It is -5 outside", "It is 5 outside"),
    "gap": ("1 5 men", "15 men"),
    "raised": ("10² metres", "102 metres"),
    "half": ("1½ cups", "11/2 cups"),
    "currency": ("$5", "€5"),
    "percent": ("5 % more", "5 more"),
    "clock": ("at 10:30", "at 1030"),
    "emoji": ("Great 👍", "Great 👎"),
    "marks": ("...", "?!"),
}


@pytest.mark.parametrize(("text", "other"), SAME.values(), ids=SAME)
def test_spellings_of_one_sentence_share_a_key(text: str, other: str) -> None:
    assert matching_key(text) == matching_key(other)


@pytest.mark.parametrize(("text", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_different_sentences_have_different_keys(text: str, other: str) -> None:
    assert matching_key(text) != matching_key(other)


@given(st.text())
def test_every_letter_of_a_text_is_in_its_key(text: str) -> None:
    key = matching_key(text)
    assert set(filter(str.isalnum, key)) >= {
        character
        for character in unicodedata.normalize("NFKC", text).casefold()
        if character.isalnum() and character not in "iı\u02bb\u02bc\u0640" and not unicodedata.combining(character)
    }


@pytest.mark.parametrize("mark", ["\u0301\u0316", "\u0316\u0301\uff9e", "\u0e49\u0327"])
def test_marks_beyond_thirty_in_a_row_do_not_count(mark: str) -> None:
    text = "a" + mark * 50_000  # takes minutes to normalise whole
    assert matching_key(text) == matching_key(text[: 1 + MOST_MARKS])
    assert matching_key(text[:MOST_MARKS]) != matching_key(text)


LONG = "The quick brown fox jumps over the lazy dog"


def test_a_reordered_sentence_is_near_unless_short_or_changed() -> None:
    evaluation = EvaluationSentences([LONG, "five words are too few"])
    assert evaluation.has_near(matching_words("Over the lazy dog, the quick brown fox jumps!"))
    assert "over the lazy dog the quick brown fox jumps" in evaluation
    assert not evaluation.has_near(matching_words("Over the lazy dog the quick brown cat jumps"))
    assert not evaluation.has_near(matching_words("too few are five words"))
    assert not evaluation.has_exact(matching_words("jumps " + LONG))


def test_scores_and_numbers_are_not_sentences() -> None:
    assert len(EvaluationSentences(["4.25", "1985", "", "?!", "a"])) == 1


def test_the_final_check_sees_a_leak_and_counts_what_is_clean() -> None:
    evaluation = EvaluationSentences(["Thanks", "Ich schlafe", LONG])
    assert check_no_leakage(["Hi", "Hallo"], evaluation) == 2
    for leak in ["thanks!", "ICH SCHLAFE", "dog the lazy over jumps fox brown quick the"]:
        with pytest.raises(LeakageError, match="training text 3 is an evaluation sentence"):
            check_no_leakage(["Hi", "Hallo", leak], evaluation)


def test_every_layout_of_the_evaluation_sets_is_read(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/STS.input.track4.txt", "A cat sits\tUn gato")
    folder = tmp_path / "eval"
    write(folder / "queries.tsv.gz", "q1\tWho was first")
    write(folder / "corpus.jsonl", json.dumps({"_id": "d1", "title": "Moon", "text": ["Luna", {"also": "Mond"}]}))
    write(folder / "README.md", "Not a sentence of any set")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    evaluation = EvaluationSentences.from_folder(folder)
    assert all(text in evaluation for text in ["A cat sits.", "un gato", "who was first?", "MOON", "luna", "mond"])
    assert "not a sentence of any set" not in evaluation


def test_the_sets_that_ship_with_this_project_are_barred_too(tmp_path: Path) -> None:
    write(tmp_path / "b.tsv", "A cat sits\tUn gato")
    query = json.loads((SHIPPED[1] / "search" / "queries.jsonl").read_text(encoding="utf-8").splitlines()[0])["text"]
    probe = SHIPPED[0].read_text(encoding="utf-8").splitlines()[1].split("\t")
    for evaluation in (EvaluationSentences.from_folder(tmp_path), EvaluationSentences.shipped()):
        assert query.upper() in evaluation
        assert all(sentence in evaluation for sentence in probe)
    assert "A cat sits" not in EvaluationSentences.shipped()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", b'"A dog","Un perro",5', "has an unknown layout .*"),
        ("a.json.gz", b"{}", "has an unknown layout .*"),
        ("sub.csv/a.XML", b"<x/>", "has an unknown layout .*"),
        ("a.tsv", b"T\xc3\xbcr\nT\xfcr\n", "line 2 is not valid UTF-8"),
        ("a.tsv", "Tür".encode("utf-16"), "is UTF-16 by its byte-order mark; save it as UTF-8"),
        ("a.tsv.gz", b"no gzip", "cannot be read to its end: Not a gzipped file .*"),
        ("a.jsonl", b"[]\n{", "line 2 is not JSON .*"),
        ("b.gz", gzip.compress(b"x", mtime=0)[:9], "cannot be read to its end: .*"),
    ],
)
def test_a_file_that_cannot_be_read_may_hide_a_leak(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    write(tmp_path / "b.tsv", "A cat sits\tUn gato")
    with pytest.raises(LeakageError, match=f"{name} {complaint}, so leakage cannot be ruled out"):
        EvaluationSentences.from_folder(tmp_path)
