import numpy as np
import pytest

from tests.training.tiny import corpus_of, tiny_corpus
from training.config.run import TokenizerConfig
from training.errors import ConfigError
from training.vocabulary.tokenizer import SPECIAL_TOKENS, balanced_sentences, train_tokenizer, wrap_tokenizer
from training.vocabulary.tokens import TokenStore, build_token_store

ENGLISH = ["A man is playing a guitar.", "The woman reads a book.", "Two dogs run in the snow."]
OTHER = ["一个男人正在弹吉他。", "İstanbul'da bir adam çalıyor", "男の人がギターを弾いている。"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(corpus_of(ENGLISH, OTHER, "zh", "tr", "ja"), TokenizerConfig(vocab_size=120), seed=1)


def test_specials_have_the_first_ids_and_frame_a_text(tokenizer) -> None:
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    tokens = tokenizer.encode("a man").tokens
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")


def test_no_word_mark_stands_before_chinese_and_japanese(tokenizer) -> None:
    tokens = tokenizer.encode(OTHER[0]).tokens + tokenizer.encode(OTHER[2]).tokens
    assert [token for token in tokens if "▁" in token] == ["▁。", "▁。"]
    assert "▁" in "".join(tokenizer.encode(ENGLISH[0]).tokens)


@pytest.mark.parametrize("text", ["(guitar)", "“guitar”", "man-guitar", "guitar,", "don'guitar"])
def test_word_beside_punctuation_has_its_usual_pieces(tokenizer, text: str) -> None:
    word = tokenizer.encode("guitar", add_special_tokens=False).ids
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert any(ids[start : start + len(word)] == word for start in range(len(ids)))


def test_the_sample_spreads_over_languages_by_the_exponent() -> None:
    corpus, _ = tiny_corpus(40)
    languages = ("en", *corpus.languages)
    texts = {name: {corpus.texts[index] for index in corpus.texts_in(name)} for name in languages}
    sample = balanced_sentences(corpus, TokenizerConfig(sentences=40, language_exponent=0.3), seed=1)
    total = sum(len(of_language) ** 0.3 for of_language in texts.values())
    for of_language in texts.values():
        drawn = sum(text in of_language for text in sample)
        assert drawn == pytest.approx(min(len(of_language), 40 * len(of_language) ** 0.3 / total), abs=1)


def test_vocabulary_filled_by_characters_is_refused() -> None:
    corpus, _ = tiny_corpus(40)
    with pytest.raises(ConfigError, match=r"vocab_size is 10, but the characters alone make \d+ pieces"):
        train_tokenizer(corpus, TokenizerConfig(vocab_size=10), seed=1)


def test_case_width_and_spacing_do_not_change_the_ids(tokenizer) -> None:
    plain = tokenizer.encode("istanbul'da bir adam").ids
    assert tokenizer.encode(" İSTANBUL'DA   BİR\tADAM ").ids == plain
    assert tokenizer.encode("ｉｓｔａｎｂｕｌ'da bir adam").ids == plain


JOINED = [
    "رجل يعزف",
    "كلب يركض في حديقة",
    "ذهب إلى آخر",
    "мальчик играет",
    "개가 뛴다",
    "ギターをひく",
    "हिन्दी ज़रा हाँ।",
]


@pytest.fixture(scope="module")
def joined_tokenizer():
    """Of text whose scripts join words, or spell them in several ways."""
    english = (ENGLISH * len(JOINED))[: len(JOINED)]
    return train_tokenizer(corpus_of(english, JOINED, "ar"), TokenizerConfig(vocab_size=200), seed=1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ذَهَبَ إِلَى آخـــر", "ذهب الى اخر"),
        ("قميصًا كلباً", "قميص كلب"),  # of an object
        ("हिन्दी ज़रा हाँ।", "हिंदी जरा हां."),
        ("госуда́рство", "государство"),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u0937"),  # a joiner between two letters
    ],
)
def test_spelling_variants_have_the_same_ids(joined_tokenizer, one: str, other: str) -> None:
    assert joined_tokenizer.encode(one).ids == joined_tokenizer.encode(other).ids


@pytest.mark.parametrize("text", ["जन्म", "👨\u200d👩"])  # a nasal before a nasal; a joiner outside Devanagari
def test_other_spellings_stay(joined_tokenizer, text: str) -> None:
    assert joined_tokenizer.normalizer.normalize_str(text) == text


def test_the_transformers_wrapper_gives_the_same_ids(tokenizer, tmp_path) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    wrapped = wrap_tokenizer(tmp_path / "tokenizer.json", max_length=32)
    assert wrapped(ENGLISH + OTHER)["input_ids"] == [tokenizer.encode(text).ids for text in ENGLISH + OTHER]


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_tokens_are_counted_however_many_are_looked_at_once(
    tokenizer, tmp_path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    build_token_store(ENGLISH, tokenizer, tmp_path, max_length=64, pad_id=0)
    monkeypatch.setattr("training.vocabulary.tokens.COUNT_CHUNK", chunk)
    store = TokenStore.load(tmp_path)
    assert store.counts(500).tolist() == np.bincount(store.ids, minlength=500).tolist()


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_store_is_the_same_for_any_batch_size(tokenizer, tmp_path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr("training.vocabulary.tokens.ENCODE_BATCH", batch)
    build_token_store(ENGLISH + OTHER, tokenizer, tmp_path, max_length=64, pad_id=77)
    store = TokenStore.load(tmp_path)
    expected = [tokenizer.encode(text).ids for text in ENGLISH + OTHER]
    assert store.ids.tolist() == [token for ids in expected for token in ids]
    assert store.lengths_of(np.array([5, 0])).tolist() == store.lengths[[5, 0]].tolist()
    input_ids, attention_mask = store.batch(np.arange(6), max_length=64)
    assert [row[mask.bool()].tolist() for row, mask in zip(input_ids, attention_mask, strict=True)] == expected
    assert set(input_ids[attention_mask == 0].tolist()) == {77}
    assert 77 not in input_ids[attention_mask == 1]


def test_a_long_text_is_cut_and_keeps_its_last_token() -> None:
    _, tokens = tiny_corpus(20)
    longest = int(tokens.lengths.argmax())
    whole = tokens.ids[tokens.offsets[longest] : tokens.offsets[longest + 1]].tolist()
    input_ids, attention_mask = tokens.batch(np.array([longest]), max_length=5)
    assert input_ids.tolist() == [[*whole[:4], whole[-1]]]
    assert attention_mask.sum() == 5
