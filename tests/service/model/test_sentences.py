import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.sentences import sentences, words

# Two sentences, or more, in each language that the bundled model knows.
TEXTS = {
    "en": ["Dr. Smith paid 3.50 dollars. ", "“Why?” ", "He asked on p. 12 of the book."],
    "de": ["Am 3. Mai war z. B. Dr. Weiß hier. ", "Das ist gut!"],
    "es": ["¿Dónde está? ", "¡Aquí! ", "El Sr. Pérez salió."],
    "fr": ["M. Dupont est parti. ", "Où ? ", "À Paris."],
    "it": ["Il n. 5 è qui. ", "«Va bene!» ", "Ecco."],
    "nl": ["Hij komt om ca. vijf uur. ", "Goed zo!"],
    "pt": ["O Sr. Silva saiu. ", "Volta às cinco. ", "Certo?"],
    "pl": ["Przyszedł 3 maja, tj. we wtorek. ", "Dobrze."],
    "cs": ["Přišel 3. května. ", "Dobře."],
    "ru": ["А. С. Пушкин родился в 1799 г. в Москве. ", "Он поэт."],
    "ar": ["ما اسمك؟ ", "اسمي علي. ", "شكرا۔"],
    "hi": ["वह घर गया। ", "फिर वह सो गया।"],
    "tr": ["Saat 5. katta çaldı. ", "Tamam!"],
    "id": ["Apa kabar? ", "Baik."],
    "vi": ["Tên tôi là Hương. ", "Còn bạn?"],
    "ja": ["これはペンです。", "「本当？」", "はい！"],
    "ko": ["안녕하세요. ", "반갑습니다!"],
    "zh": ["我叫小明。", "你呢？", "“好。”", "他走了"],
}


@pytest.mark.parametrize("language", TEXTS)
def test_sentences_end_where_a_reader_ends_them(language: str) -> None:
    text = "".join(TEXTS[language])
    assert [text[start:stop] for start, stop in sentences(text)] == TEXTS[language]


def test_a_line_ends_a_sentence() -> None:
    text = "A heading\n\nThen text\r\nand more"
    assert [text[start:stop] for start, stop in sentences(text)] == ["A heading\n\n", "Then text\r\n", "and more"]


@given(st.text(st.sampled_from(list('.!?。！…। \n\u2029"”)aBé1Ж中กا')), max_size=60) | st.text(max_size=60))
def test_sentences_and_words_are_the_whole_text_in_order(text: str) -> None:
    assert "".join(text[start:stop] for start, stop in sentences(text)) == text
    assert all(start < stop for start, stop in sentences(text))
    assert "".join(text[start:stop] for start, stop in words(text, 0, len(text))) == text


@pytest.mark.parametrize("run", ["!", ".", "!?", "…", "!'", ".'", "።"])
def test_a_long_run_of_marks_takes_no_square_of_its_length(run: str) -> None:
    text = run * (1_000_000 // len(run)) + "x"  # its square takes hours, and the test's time ends
    assert list(sentences(text)) == [(0, len(text))]
