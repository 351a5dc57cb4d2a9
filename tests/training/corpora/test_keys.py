import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.cleaning.keys import MOST_MARKS, matching_key

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
