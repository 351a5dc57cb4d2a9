import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.model.passages import Splitter, clauses, halves, sentences, words
from service.model.tokenizer import WHITE_SPACE, Tokenizer, stripped

MODEL = Path(__file__).parents[3] / "models" / "default"
LONGEST = 128
PIECES = [
    *(
        "The engine stopped. ",
        "Warum denn? ",
        "我不知道。",
        "これは本です。",
        "वह घर गया। ",
        "ไม่มีช่องว่างเลย",
        "\n\n",
        "x",
    ),
    *("a" * 700, "word " * 150, "漢" * 300, "🙂" * 90, "  ", "ﷺ", "1,5 ", "漢字、「仮名、」" * 50, "กา\u200b" * 90),
]
TEXT = " ".join(f"Sentence number {number} tells of the {number}th engine." for number in range(120))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(MODEL / "tokenizer.json", max_length=LONGEST)


@settings(deadline=None, max_examples=60)
@given(text=st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_passages_fit_the_model_and_cover_the_text(tokenizer: Tokenizer, text: str) -> None:
    spans = Splitter(tokenizer, prompt="passage: ").split(text)
    if not spans:
        assert len(tokenizer.whole(f"passage: {stripped(text)}")) <= LONGEST + 1  # 1: a space of the prompt's
        return
    assert len(spans) > 1
    assert spans[0][0] == len(text) - len(text.lstrip(WHITE_SPACE))
    assert spans[-1][1] == len(text.rstrip(WHITE_SPACE))
    for (start, stop), (next_start, next_stop) in pairwise(spans):
        assert start < next_start
        assert stop < next_stop
        assert not text[stop:next_start].strip(WHITE_SPACE)
    assert all(len(tokenizer.whole(f"passage: {text[start:stop]}")) <= LONGEST for start, stop in spans)


def test_passages_end_with_sentences_and_overlap(tokenizer: Tokenizer) -> None:
    spans = Splitter(tokenizer, prompt="").split(TEXT)
    starts = {start for start, _ in sentences(TEXT)}
    stops = {len(TEXT[:stop].rstrip()) for _, stop in sentences(TEXT)}
    assert {start for start, _ in spans} <= starts
    assert {stop for _, stop in spans} <= stops
    assert all(next_start < stop for (_, stop), (next_start, _) in pairwise(spans))
    tokens = [len(tokenizer.pieces(TEXT[start:stop])) for start, stop in spans]
    assert min(tokens) > LONGEST / 2  # the last one, too


CLAUSES = [
    "我们昨天去了城里的图书馆，",
    "昨日は町の図書館へ行って本を借りて、",
    "「昨日は町の図書館へ行った、」",
    "کتابخانه،",
    "책을\u200b",
]


@pytest.mark.parametrize("clause", CLAUSES)
def test_long_sentence_without_spaces_is_split_at_clauses(tokenizer: Tokenizer, clause: str) -> None:
    spans = Splitter(tokenizer, prompt="").split(clause * 300)
    assert len(spans) > 2
    assert {start % len(clause) for start, _ in spans} == {0}
    assert {stop % len(clause) for _, stop in spans} == {len(clause.rstrip(WHITE_SPACE)) % len(clause)}


# Emoji: a family of one skin tone, the flag of England, a heart.
CHARACTERS = ["👩🏽\u200d👩🏽\u200d👧🏽", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "❤\ufe0f"]
CHARACTERS += [unicodedata.normalize("NFD", "한"), "y\u0306\u0307", "ｶﾞ", "กำ", "ກຳ", "का"]


@pytest.mark.parametrize("character", CHARACTERS)
def test_no_character_is_halved(character: str) -> None:
    for count in range(3, 20):
        text = f"ab{character * count}"
        (first, middle), (same, last) = halves(text, 1, len(text))
        assert (first, same, last) == (1, middle, len(text))
        assert (middle - 2) % len(character) == 0
    assert halves(character, 0, 2) == ((0, 1), (1, 2))  # none is as long as a passage


class WholeParts(Splitter):
    """Counts every token of every part."""

    def _tokens(self, text: str, start: int, stop: int) -> int:
        return len(self._tokenizer.pieces(text[start:stop]))


@settings(deadline=None, max_examples=60)
@given(
    text=st.lists(st.sampled_from([*PIECES, TEXT, "a" * 3000, "漢字仮名" * 500, " " * 3000]), max_size=8).map("".join)
)
def test_partly_counted_parts_are_split_alike(tokenizer: Tokenizer, text: str) -> None:
    assert Splitter(tokenizer, prompt="x ").split(text) == WholeParts(tokenizer, prompt="x ").split(text)


class CountedCharacters(Tokenizer):
    chars = 0

    def pieces(self, text: str) -> list[int]:
        self.chars += len(text)
        return super().pieces(text)


@pytest.mark.parametrize("text", ["a" * 100_000, "漢字" * 50_000, "word " * 20_000, "a\n" * 50_000, "1,5" * 33_000])
def test_long_text_is_tokenised_a_few_times_at_most(text: str) -> None:
    counting = CountedCharacters(MODEL / "tokenizer.json", max_length=LONGEST)
    assert len(Splitter(counting, prompt="").split(text)) > 100
    assert counting.chars < 8 * len(text)


def test_text_is_tokenised_only_as_far_as_passages_are_taken() -> None:
    counting = CountedCharacters(MODEL / "tokenizer.json", max_length=LONGEST)
    passages = Splitter(counting, prompt="").passages("word " * 20_000)
    assert next(passages)[0] == 0
    assert counting.chars < 10_000


def test_long_prompt_leaves_less_room(tokenizer: Tokenizer) -> None:
    alone, behind = (len(Splitter(tokenizer, prompt=prompt).split(TEXT)) for prompt in ("", "search document " * 20))
    assert behind > alone


def test_text_that_fits_is_not_split(tokenizer: Tokenizer) -> None:
    splitter = Splitter(tokenizer, prompt="")
    assert splitter.split("One sentence. Another one.") == ()
    assert splitter.split("") == ()
    assert splitter.split(" " * 1000) == ()


@pytest.mark.parametrize("end", ["\n" * 500, " \u3000" * 500, "\ufeff\xa0\u2028"])
def test_white_space_at_the_ends_is_in_no_passage(tokenizer: Tokenizer, end: str) -> None:
    splitter, before = Splitter(tokenizer, prompt=""), len(end)
    assert splitter.split(f"{end}A short text.{end}") == ()
    moved = [(start + before, stop + before) for start, stop in splitter.split(TEXT)]
    spans = splitter.split(f"{end}{TEXT}{end}")
    assert (spans[0][0], spans[-1][1]) == (moved[0][0], moved[-1][1])


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


@given(st.text(st.sampled_from(list('.!?。！…।、， \n\u2029\u200b"”)aBé1Ж中กا')), max_size=60) | st.text(max_size=60))
def test_sentences_and_words_cover_the_text_in_order(text: str) -> None:
    assert "".join(text[start:stop] for start, stop in sentences(text)) == text
    assert all(start < stop for start, stop in sentences(text))
    for divide in (words, clauses):
        assert "".join(text[start:stop] for start, stop in divide(text, 0, len(text))) == text


@pytest.mark.parametrize("run", ["!", ".", "!?", "…", "!'", ".'", "።", "、", "، "])
def test_long_run_of_marks_is_split_in_linear_time(run: str) -> None:
    text = run * (1_000_000 // len(run)) + "x"  # its square takes hours, and the test's time ends
    assert list(sentences(text)) == [(0, len(text))]
    assert [*clauses(text, 0, len(text))][-1][1] == len(text)
