import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.encoder import load_encoder
from service.model.folding import folded, origins
from service.model.tokenizer import Tokenizer
from tests.artifacts import TEXTS, build_artifact, write_manifest
from tests.vocabularies import unigram


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WINTERJACKE", "winterjacke"),
        ("ROTE HOSE", "rote hose"),  # eight in a row
        ("WO IST DER BAHNHOF? IM ORT.", "wo ist der bahnhof? IM ORT."),
        ("NIKE Air Max LAUFSCHUHE, HERREN UND ICH", "NIKE Air Max laufschuhe, herren und ich"),
        ("ГДЕ НАХОДИТСЯ ВОКЗАЛ", "где находится вокзал"),
        ("PŘÍLIŠ ŽLUŤOUČKÝ KŮŇ", "příliš žluťoučký kůň"),
        ("HỘ CHIẾU CỦA TÔI", "hộ chiếu của tôi"),
        ("İSTANBUL'DA IŞIK", "istanbul'da ışık"),
        ("DIYARBAKIR", "diyarbakir"),  # no dot tells that it is Turkish
        ("SALE – 50 % RABATT", "sale – 50 % rabatt"),
        ("GROẞE STRASSE 12 B", "große strasse 12 b"),
        ("使用WINDOWS系统", "使用windows系统"),
        ("ＷＩＮＴＥＲ", "ｗｉｎｔｅｒ"),
        ("المَحَطَّةُ مُغْلَقَةٌ", "المحطة مغلقة"),
        ("مـــرحبا", "مرحبا"),
        ("за́мок и замо́к", "замок и замок"),
    ],
)
def test_capitals_become_small_and_vowel_marks_go(text: str, expected: str) -> None:
    assert folded(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *TEXTS,
        *(
            "",
            "I",
            "NATO",
            "USB HDMI",
            "USB HDMI\nWLAN",
            "USB-C 케이블 USB-A",
            "US",
            "Der GTX1080 von NVI",
            "iPhone",
            "McDONALD",
            "A. B. C. D. E. F. G. H. I.",
        ),
        *(
            "एक आदमी गिटार बजा रहा है।",
            "男の人がギターを弾いている。",
            "남자가 기타를 치고 있다.",
            "ผู้ชายเล่นกีตาร์",
            "ქართული ენა",
        ),
        *(
            unicodedata.normalize("NFD", text)
            for text in ("آخر أكتوبر إلى مؤسسة شيئ", "ѓавол ќе й ё", "Hộ chiếu", "がぎ")
        ),
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert folded(text) == text


@given(st.text(st.sampled_from("Aa Iİß .Б\u0301б\u064eكÉ1中\n"), max_size=60))
def test_each_character_comes_from_where_it_is_said(text: str) -> None:
    places = origins(text)
    assert places[-1] == len(text)
    for character, place in zip(folded(text), places, strict=False):
        assert character.lower() in {text[place].lower(), "i", "ı"}
    assert len(folded(text)) == len(places) - 1


def test_a_text_is_folded_wherever_it_is_tokenised(tmp_path: Path) -> None:
    unigram(["a red winter jacket", *TEXTS]).save(str(tmp_path / "tokenizer.json"))
    plain, folding = (
        Tokenizer(tmp_path / "tokenizer.json", max_length=64, folds_text=folds) for folds in (False, True)
    )
    small, given_text = "a red winter jacket", "A RED WI\u0640NTER JACKET"
    assert plain.whole(given_text) != plain.whole(small) == folding.whole(given_text)
    assert folding.pieces(given_text) == plain.pieces(small)
    assert folding.tokenise_all([given_text, small]) == plain.tokenise_all([small, small])
    assert folding.windows(given_text, prompt="") == plain.windows(small, prompt="")
    parts = [
        given_text[token.start : token.stop].replace("\u0640", "").strip().lower()
        for token in folding.tokens(given_text, add_special_tokens=False)
    ]
    assert parts == [small[token.start : token.stop].strip() for token in plain.tokens(small, add_special_tokens=False)]


def test_a_model_folds_texts_where_its_manifest_says_so(tmp_path: Path) -> None:
    build_artifact(tmp_path)
    for folds_text in (False, True):
        write_manifest(tmp_path, folds_text=folds_text)
        vectors = [load_encoder(tmp_path).encode(text).vector for text in ("gui\u0640tar", "guitar")]
        assert (vectors[0] == vectors[1]).all() == folds_text
    alone = load_encoder(tmp_path).encode("\u0640\u064e")  # of which nothing is left
    assert abs(float((alone.vector**2).sum()) - 1) < 1e-5
