"""Pruning a tokenizer: the corpus is cut as before, with fewer pieces."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from training.errors import ConfigError
from training.pruning import count_pieces, prune_tokenizer

LEARNT_FROM = [
    "the quick brown fox jumps over the lazy dog", "der schnelle braune fuchs springt über den faulen hund",
    "el veloz zorro marrón salta sobre el perro perezoso", "быстрая лиса прыгает через ленивую собаку",
    "敏捷的棕色狐狸跳过懒狗", "the dogs and foxes are jumping and running quickly over the brown logs",
] * 4  # fmt: skip
CORPUS = ["the fox jumps over the dog", "der hund springt über den fuchs", "the quick dogs are running"]


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(LEARNT_FROM, trainers.WordPieceTrainer(vocab_size=220, special_tokens=special))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=220, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(LEARNT_FROM, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def byte_level_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=460, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(LEARNT_FROM, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


KINDS = pytest.mark.parametrize("make", [wordpiece, unigram, byte_level_bpe], ids=lambda make: make.__name__)


@KINDS
def test_the_corpus_is_cut_as_before_into_fewer_pieces(make) -> None:
    whole = make()
    pruned, old_ids = prune_tokenizer(whole, count_pieces(whole, CORPUS), size=10_000)
    assert pruned.get_vocab_size() == len(old_ids) < whole.get_vocab_size()
    for text in CORPUS:
        expected, actual = whole.encode(text), pruned.encode(text)
        assert actual.tokens == expected.tokens
        assert old_ids[actual.ids].tolist() == expected.ids


@KINDS
def test_the_frequent_pieces_stay_when_the_budget_is_short(make) -> None:
    whole = make()
    counts = count_pieces(whole, CORPUS)
    in_use = len(prune_tokenizer(whole, counts, size=10_000)[1])
    pruned, old_ids = prune_tokenizer(whole, counts, size=in_use - 5)
    assert len(old_ids) <= in_use - 5
    assert int(np.argmax(counts)) in old_ids
    for text in CORPUS:  # characters remain, so no word is lost
        assert "unk" not in " ".join(pruned.encode(text).tokens).lower()


@KINDS
def test_specials_come_first_and_frame_every_text(make) -> None:
    whole = make()
    pruned, _ = prune_tokenizer(whole, count_pieces(whole, CORPUS), size=10_000)
    assert pruned.encode("the dog").tokens[0] == whole.encode("the dog").tokens[0]
    for token in ("<pad>", "[PAD]"):
        assert pruned.token_to_id(token) == whole.token_to_id(token)


def test_a_budget_below_the_characters_is_refused() -> None:
    whole = wordpiece()
    with pytest.raises(ConfigError, match="vocab_size is 8; special tokens and the corpus's characters alone are"):
        prune_tokenizer(whole, count_pieces(whole, CORPUS), size=8)


def test_a_model_without_smaller_pieces_is_refused() -> None:
    whole = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(ConfigError, match="a WordLevel tokenizer cannot be pruned"):
        prune_tokenizer(whole, np.array([1, 0]), size=8)
