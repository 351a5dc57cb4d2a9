import unicodedata
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents.keywords.hangul import completions, is_syllable, keys
from tests.service.documents.keywords.test_index import found, put
from tests.service.documents.stores import open_store

SYLLABLES = st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3)
ALL = {keys(char): char for char in map(chr, range(0xAC00, 0xD7A4))}
OTHERS = {f"{n}": text for n, text in enumerate(["주전자를 샀습니다", "회의는 두 시", "바다가 보인다", "물을 끓인다"])}
# Words, with finals that move to the next syllable, compound vowels, and double finals that come apart.
WORDS = ["한국어", "안녕하세요", "비밀번호", "감사합니다", "닭갈비", "읽어요", "과자", "의사", "값이", "웬일", "꽃다발"]
# What input methods show after each key.
SHOWN = {
    "하세요": ["ㅎ", "하", "핫", "하세", "하셍", "하세요"],
    "읽어": ["ㅇ", "이", "일", "읽", "읽ㅇ", "읽어"],
    "달구": ["ㄷ", "다", "달", "닭", "달구"],
    "과자": ["ㄱ", "고", "과", "괒", "과자"],
    "의사": ["ㅇ", "으", "의", "읫", "의사"],
    "한국": ["ㅎ", "하", "한", "한ㄱ", "한구", "한국"],
}


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def shown(word: str) -> list[str]:
    """What a text box shows after each key: a syllable takes a consonant as its final, until a vowel follows."""
    texts: list[str] = []
    for end in range(1, len(keys(word)) + 1):
        typed = keys(word)[:end]
        start = max(n for n in range(len(word)) if typed.startswith(keys(word[:n])))
        rest = typed[len(keys(word[:start])) :]
        if joined := ALL.get(keys(word[start - 1 : start]) + rest) if start else None:
            texts.append(word[: start - 1] + joined)
        else:
            texts.append(word[:start] + ALL.get(rest, rest))
    return texts


@pytest.mark.parametrize("word", SHOWN)
def test_the_keys_lead_to_what_input_methods_show(word: str) -> None:
    assert shown(word) == SHOWN[word]


@settings(max_examples=50, deadline=None)
@given(typed=SYLLABLES)
def test_completions_hold_what_goes_on_with_more_letters(typed: str) -> None:
    lists = completions(typed)
    assert all(terms == sorted(terms) and all(map(is_syllable, "".join(terms))) for terms in lists)
    same = {char for char in ALL.values() if nfd(char).startswith(nfd(typed))}
    assert same <= {*lists[0]} <= {char for char in ALL.values() if keys(char).startswith(keys(typed))}


@pytest.mark.parametrize("word", WORDS)
def test_each_key_of_a_word_finds_it(word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with closing(open_store(tmp_path_factory.mktemp("store"))) as store:
        put(store, {**OTHERS, "right": f"이것은 {word} 입니다"})
        for before in ("", "새로운 "):
            hits = {text: found(store, before + text, typing=True) for text in shown(word)[1:]}
            assert {text for text, scores in hits.items() if "right" not in scores} == set()
            assert "right" not in found(store, f"{before}{word[0]}ㄱ ", typing=True)  # finished
