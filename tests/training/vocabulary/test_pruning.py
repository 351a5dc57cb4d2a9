"""Pruning a tokenizer: the corpus is cut as before, with fewer pieces."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from tests.vocabularies import byte_level_bpe, unigram, wordpiece
from training.errors import ConfigError
from training.vocabulary.pruning import count_pieces, prune_tokenizer

LEARNT_FROM = [
    "the quick brown fox jumps over the lazy dog", "der schnelle braune fuchs springt über den faulen hund",
    "el veloz zorro marrón salta sobre el perro perezoso", "быстрая лиса прыгает через ленивую собаку",
    "敏捷的棕色狐狸跳过懒狗", "the dogs and foxes are jumping and running quickly over the brown logs",
] * 4  # fmt: skip
CORPUS = ["the fox jumps over the dog", "der hund springt über den fuchs", "the quick dogs are running"]
KINDS = pytest.mark.parametrize("make", [wordpiece, unigram, byte_level_bpe], ids=lambda make: make.__name__)


@KINDS
def test_the_corpus_is_cut_as_before_into_fewer_pieces(make) -> None:
    whole = make(LEARNT_FROM)
    pruned, old_ids = prune_tokenizer(whole, count_pieces(whole, CORPUS), size=10_000)
    assert pruned.get_vocab_size() == len(old_ids) < whole.get_vocab_size()
    for text in CORPUS:
        expected, actual = whole.encode(text), pruned.encode(text)
        assert actual.tokens == expected.tokens
        assert old_ids[actual.ids].tolist() == expected.ids
    for token in ("<pad>", "[PAD]"):  # special tokens keep the first ids
        assert pruned.token_to_id(token) == whole.token_to_id(token)


@KINDS
def test_the_frequent_pieces_stay_when_the_budget_is_short(make) -> None:
    whole = make(LEARNT_FROM)
    counts = count_pieces(whole, CORPUS)
    in_use = len(prune_tokenizer(whole, counts, size=10_000)[1])
    pruned, old_ids = prune_tokenizer(whole, counts, size=in_use - 5)
    assert len(old_ids) <= in_use - 5
    assert int(np.argmax(counts)) in old_ids
    for text in CORPUS:  # characters remain, so no word is lost
        assert "unk" not in " ".join(pruned.encode(text).tokens).lower()


def test_emoji_stay_though_no_text_has_them() -> None:
    whole = unigram([*LEARNT_FROM, *["it 😀 me ❤ and 👍"] * 4])
    pruned, _ = prune_tokenizer(whole, count_pieces(whole, CORPUS), size=10_000)
    assert {"😀", "❤", "👍"} <= pruned.get_vocab().keys()
    assert "б" not in pruned.get_vocab()


def test_a_budget_below_the_characters_is_refused() -> None:
    whole = wordpiece(LEARNT_FROM)
    with pytest.raises(ConfigError, match="vocab_size is 8; special tokens and the corpus's characters alone take"):
        prune_tokenizer(whole, count_pieces(whole, CORPUS), size=8)


def test_a_model_without_smaller_pieces_is_refused() -> None:
    whole = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(ConfigError, match="a WordLevel tokenizer cannot be pruned"):
        prune_tokenizer(whole, np.array([1, 0]), size=8)


def test_filled_vocabulary_keeps_words_of_its_scripts() -> None:
    whole = unigram(LEARNT_FROM)
    counts = count_pieces(whole, CORPUS)
    bare, filled = (prune_tokenizer(whole, counts, 10_000, fill=fill)[0] for fill in (False, True))
    assert len(bare.encode("perezoso zorro").ids) > len(filled.encode("perezoso zorro").ids)
    assert filled.encode("perezoso zorro").tokens == whole.encode("perezoso zorro").tokens
    assert not {"б", "狐"} & filled.get_vocab().keys()  # no text of the corpus is in these scripts
    room = bare.get_vocab_size() + 3
    kept, old_ids = prune_tokenizer(whole, counts, room, fill=True)
    assert kept.get_vocab_size() == len(old_ids) == room
    assert bare.get_vocab().keys() < kept.get_vocab().keys()
