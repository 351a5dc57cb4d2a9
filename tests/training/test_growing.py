"""A vocabulary that gets words: whole where they were in pieces, everything else as before."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from tests.training.bases import byte_level_bpe, wordpiece
from training.config import TokenizerConfig
from training.corpora.corpus import Corpus
from training.errors import ConfigError
from training.growing import count_words, grow_tokenizer, grown_embeddings
from training.pruning import count_pieces, prune_tokenizer
from training.tokenizer import train_tokenizer

LEARNT_FROM = ["the quick brown fox jumps over the lazy dog", "the dogs are running over the brown logs"] * 4
NEW = ["zorro marrón salta", "zorro marrón", "zorro", "perro"]


@pytest.fixture
def before() -> Tokenizer:
    return byte_level_bpe(LEARNT_FROM)


def words(tokenizer: Tokenizer, count: int) -> list[str]:
    return [
        tokenizer.id_to_token(index) for index in range(tokenizer.get_vocab_size() - count, tokenizer.get_vocab_size())
    ]


def test_frequent_words_become_one_piece_and_rare_ones_do_not(before: Tokenizer) -> None:
    after = grow_tokenizer(before, {"es": [" zorro marrón"] * 3 + [" perro"] * 2}, size=10_000)
    assert after.get_vocab_size() == before.get_vocab_size() + 2  # perro occurs twice
    for word in (" zorro", " marrón"):
        assert len(after.encode(word, add_special_tokens=False).ids) == 1
        assert len(before.encode(word, add_special_tokens=False).ids) > 1
    assert after.encode(" perro").ids == before.encode(" perro").ids


def test_a_text_without_new_words_keeps_its_ids(before: Tokenizer) -> None:
    after = grow_tokenizer(before, {"es": NEW * 3}, size=10_000)
    for text in (*LEARNT_FROM, "a fox, two dogs"):
        assert after.encode(text).ids == before.encode(text).ids


def test_where_room_is_short_each_language_gives_its_most_frequent_words(before: Tokenizer) -> None:
    long, short = [" gato"] * 90 + [" pan"] * 10, [" katze"] * 5 + [" brot"] * 3
    after = grow_tokenizer(before, {"es": long, "de": short}, size=before.get_vocab_size() + 3)
    assert [word.lstrip("Ġ") for word in words(after, 3)] == [
        "gato",
        "katze",
        "brot",
    ]  # shares 0.9, 0.62, 0.38; pan 0.1


def test_a_new_word_starts_as_the_mean_of_the_pieces_it_was_cut_into(before: Tokenizer) -> None:
    after = grow_tokenizer(before, {"es": NEW * 3}, size=10_000)
    table_VH = torch.randn(before.get_vocab_size(), 4)
    grown_WH = grown_embeddings(table_VH, before, after)
    assert torch.equal(grown_WH[: len(table_VH)], table_VH)
    for word in ("zorro", " marrón"):
        (row,) = after.encode(word, add_special_tokens=False).ids
        parts = before.encode(word, add_special_tokens=False).ids
        assert row >= len(table_VH)
        assert torch.allclose(grown_WH[row], table_VH[parts].mean(dim=0))


def test_rows_of_no_piece_are_left_out(before: Tokenizer) -> None:
    after = grow_tokenizer(before, {"es": NEW * 3}, size=10_000)
    table_VH = torch.randn(before.get_vocab_size() + 8, 4)  # as some bases have, for the sake of alignment
    grown_WH = grown_embeddings(table_VH, before, after)
    (row,) = after.encode("zorro", add_special_tokens=False).ids
    assert len(grown_WH) == after.get_vocab_size()
    assert torch.allclose(grown_WH[row], table_VH[before.encode("zorro", add_special_tokens=False).ids].mean(dim=0))


def test_words_are_counted_as_the_tokenizer_normalises_and_cuts_them(before: Tokenizer) -> None:
    before.normalizer = normalizers.Lowercase()
    assert count_words(before, ["Zorro zorro", "ZORRO"]) == {"zorro": 2, "Ġzorro": 1}


def test_the_length_of_a_word_counts_characters_not_bytes(before: Tokenizer) -> None:
    russian, endless = "государственный", "a" * 21
    after = grow_tokenizer(before, {"ru": [russian, endless] * 3}, size=10_000)
    assert len(after.encode(russian, add_special_tokens=False).ids) == 1
    assert len(after.encode(endless, add_special_tokens=False).ids) > 1


def test_a_vocabulary_as_training_makes_it_grows_too() -> None:
    index = np.arange(4, dtype=np.int32)
    texts = [*LEARNT_FROM[:4], "Der Hund läuft.", "Ein Hund!", "der hund", "قطة"]
    corpus = Corpus(texts, 4, index, index + 4, ["de"], ["news"], np.zeros(4, np.int32), np.zeros(4, np.int32))
    before = train_tokenizer(corpus, TokenizerConfig(vocab_size=45), seed=1)
    after = grow_tokenizer(before, {"de": texts[4:]}, size=10_000)
    assert words(after, 1) == ["▁hund"]
    assert after.encode("Hund.").tokens == ["[CLS]", "▁hund", *before.encode(".").tokens[1:]]
    pruned, _ = prune_tokenizer(after, count_pieces(after, ["Hund"]), size=10_000)
    assert pruned.encode("Hund").tokens == after.encode("Hund").tokens


def test_a_full_vocabulary_stays_as_it_is(before: Tokenizer) -> None:
    after = grow_tokenizer(before, {"es": NEW * 3}, size=before.get_vocab_size())
    assert after.get_vocab() == before.get_vocab()


def test_what_cannot_be_grown_is_refused(before: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="a WordPiece tokenizer cannot be grown; BPE can"):
        grow_tokenizer(wordpiece(LEARNT_FROM), {"es": NEW}, size=10_000)
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size is 5; the base's vocabulary has"):
        grow_tokenizer(before, {"es": NEW}, size=5)
    for state in (with_a_gap(before), with_an_added_token(before)):
        with pytest.raises(ConfigError, match="ids have gaps, or go beyond its own pieces: it cannot be grown"):
            grow_tokenizer(state, {"es": NEW}, size=10_000)
    uncut = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    with pytest.raises(ConfigError, match="does not cut a text into words: it cannot be grown"):
        grow_tokenizer(uncut, {"es": NEW}, size=10_000)


def test_a_word_that_is_cut_into_nothing_is_not_added() -> None:
    before = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))  # no [UNK]
    before.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert grow_tokenizer(before, {"ru": ["лиса ab"] * 3}, size=10).get_vocab() == {"a": 0, "b": 1, "ab": 2}


def with_a_gap(tokenizer: Tokenizer) -> Tokenizer:
    state = json.loads(tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    last = max(vocabulary, key=vocabulary.__getitem__)
    vocabulary[last] += 1
    return Tokenizer.from_str(json.dumps(state))


def with_an_added_token(tokenizer: Tokenizer) -> Tokenizer:
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.add_tokens(["<more>"])
    return copy
