"""Which tokens of a pair's two sides stand for each other."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.training.bases import byte_level_bpe, unigram, wordpiece
from training import word_links
from training.config import TokenizerConfig
from training.corpora.corpus import Corpus
from training.corpora.translation import WORDS
from training.errors import ConfigError
from training.tokenizer import train_tokenizer
from training.word_links import WordLinks, build_word_links, word_tokens

GERMAN = [
    ("The dog sleeps.", "Der Hund schläft."),
    ("The cat sleeps.", "Die Katze schläft."),
    ("The dog eats.", "Der Hund frisst."),
    ("The cat eats.", "Die Katze frisst."),
    ("A dog and a cat", "Ein Hund und eine Katze"),
]
TEXT = "İstanbul'da (bir) “adam”, Äpfel-Kuchen 3,5 كلب كبير!"


def corpus_of(pairs: list[tuple[str, str]], languages: list[str]) -> Corpus:
    """Pair i is in `languages[i]`."""
    names, index = list(dict.fromkeys(languages)), np.arange(len(pairs), dtype=np.int32)
    texts = [english for english, _ in pairs] + [other for _, other in pairs]
    codes = np.array([names.index(language) for language in languages], dtype=np.uint16)
    return Corpus(texts, len(pairs), index, index + len(pairs), names, ["news"], codes, np.zeros_like(codes))


@pytest.fixture
def linked(tmp_path):
    """Builds the links of a corpus, and reads each as two words."""

    def build(
        pairs: list[tuple[str, str]], languages: list[str], *, max_length: int = 32, sources: list[str] | None = None
    ) -> list[list[tuple]]:
        corpus = corpus_of(pairs, languages)
        other, english = train_tokenizer(corpus, TokenizerConfig(vocab_size=200), seed=1), wordpiece(corpus.texts)
        for tokenizer in (other, english):
            tokenizer.no_padding()
            tokenizer.enable_truncation(max_length)
        build_word_links(corpus, other, english, tmp_path, sources=sources)
        links = WordLinks.load(tmp_path)
        assert len(links.starts) == len(links.counts) == len(pairs)

        def word(tokenizer, text: str, first: int, stop: int) -> str:
            offsets = tokenizer.encode(text).offsets
            return text[offsets[first][0] : offsets[stop - 1][1]].strip()

        return [
            [
                (word(other, pairs[pair][1], first, stop), word(english, pairs[pair][0], begin, end))
                for first, stop, begin, end in links.of(np.array([pair]))[0].tolist()
            ]
            for pair in range(len(pairs))
        ]

    return build


def test_words_are_linked_to_what_they_stand_for(linked) -> None:
    found = linked(GERMAN, ["de"] * 5)
    assert {("Hund", "dog"), ("schläft", "sleeps")} <= set(found[0])
    assert {("Katze", "cat"), ("frisst", "eats")} <= set(found[3])
    assert {("Hund", "dog"), ("Katze", "cat")} <= set(found[4])
    assert not any("." in word for links in found for link in links for word in link)


def test_a_language_without_spaces_has_no_links_and_others_keep_theirs(linked) -> None:
    found = linked([*GERMAN, ("The dog", "狗"), *GERMAN], [*["de"] * 5, "zh", *["de"] * 5])
    assert found[5] == []
    assert ("Hund", "dog") in found[0]
    assert ("Hund", "dog") in found[6]


def test_a_long_side_has_no_links(linked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_links, "MAX_SIDE_WORDS", 4)
    found = linked(GERMAN, ["de"] * 5)
    assert found[0]
    assert not found[4]


def test_a_word_that_is_cut_off_has_no_links(linked) -> None:
    whole, cut = linked(GERMAN, ["de"] * 5), linked(GERMAN, ["de"] * 5, max_length=4)
    assert set(cut[4]) < set(whole[4])
    assert cut[0]


@pytest.mark.parametrize(("max_length", "numbers"), [(4, [0]), (8, [0]), (9, [0, 1]), (20, [0, 1])])
def test_a_word_that_is_cut_within_is_left_out(max_length: int, numbers: list[int]) -> None:
    tokenizer, text = byte_level_bpe([]), "ab Bahn"  # a token a letter, and one for the space
    tokenizer.enable_truncation(max_length)
    assert list(word_tokens(tokenizer.encode(text), WORDS.pre_tokenize_str(text))) == numbers


def test_languages_may_be_mixed_and_sources_left_out(linked, tmp_path) -> None:
    mixed = [pair for pair in GERMAN for _ in range(2)]
    found = linked(mixed, ["de", "fr"] * 5)
    assert found[::2] == linked(GERMAN, ["de"] * 5)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report == {"de": {"pairs": 5, "links": sum(map(len, found[::2]))}}
    with pytest.raises(ConfigError, match="word_weight has no word to teach"):
        linked(GERMAN, ["de"] * 5, sources=["other"])


def test_a_corpus_without_words_is_refused(linked) -> None:
    with pytest.raises(ConfigError, match="word_weight has no word to teach"):
        linked([("The dog", "狗")], ["zh"])


def test_chunks_are_of_one_size_and_of_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, pairs = corpus_of([*GERMAN, *GERMAN], ["de"] * 10), np.arange(1, 10)

    def chunks() -> list[list[int]]:
        return [chunk.tolist() for chunk in word_links._chunks(corpus, pairs)]

    assert chunks() == [pairs.tolist()]
    monkeypatch.setattr(word_links, "CHUNK_PAIRS", 4)
    assert chunks() == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]
    monkeypatch.setattr(word_links, "CHUNK_CELLS", 50)  # 16 of each pair but two, which have 36
    assert chunks() == [[1, 5, 9], [2, 6], [3, 7], [4, 8]]
    assert list(word_links._chunks(corpus, pairs[:0])) == []


def test_links_of_pairs_come_in_the_order_asked_for() -> None:
    counts = np.array([2, 0, 3, 1], dtype=np.uint16)
    links = WordLinks(np.arange(24, dtype=np.uint16).reshape(6, 4), np.array([0, 2, 2, 5]), counts)
    rows, pair = links.of(np.array([3, 1, 0, 3]))
    assert rows[:, 0].tolist() == [20, 0, 4, 20]
    assert pair.tolist() == [0, 2, 2, 3]
    assert links.of(np.array([1]))[0].shape == (0, 4)


@pytest.mark.parametrize("make", [wordpiece, unigram, byte_level_bpe])
def test_the_tokens_of_a_word_are_its_own_and_all_of_them(make) -> None:
    tokenizer = make([TEXT])
    encoding, words = tokenizer.encode(TEXT), WORDS.pre_tokenize_str(TEXT)
    spans = word_tokens(encoding, words)
    assert [words[number][0] for number in spans] == [
        "İstanbul", "da", "bir", "adam", "Äpfel", "Kuchen", "3", "5", "كلب", "كبير"
    ]  # fmt: skip
    for number, (first, stop) in spans.items():
        start, end = words[number][1]
        covered = TEXT[encoding.offsets[first][0] : encoding.offsets[stop - 1][1]]
        assert covered.strip("( “,-'") == TEXT[start:end]
    assert not any(
        encoding.special_tokens_mask[token] for first, stop in spans.values() for token in range(first, stop)
    )


def test_a_token_of_two_words_is_neithers() -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "don't": 1, "go": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    text = "don't go"
    assert word_tokens(tokenizer.encode(text), WORDS.pre_tokenize_str(text)) == {3: (1, 2)}
