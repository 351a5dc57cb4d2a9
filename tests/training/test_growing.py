"""A vocabulary that gets words: whole where they were in pieces, everything else as before."""

import pytest
import torch
from tokenizers import Tokenizer

from tests.training.bases import byte_level_bpe, wordpiece
from training.errors import ConfigError
from training.growing import count_words, grow_tokenizer, grown_embeddings

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


def test_words_are_counted_as_the_tokenizer_normalises_them(before: Tokenizer) -> None:
    assert count_words(before, ["zorro zorro", "zorro"]) == {"zorro": 2, "Ġzorro": 1}


def test_a_full_vocabulary_stays_as_it_is(before: Tokenizer) -> None:
    after = grow_tokenizer(before, {"es": NEW * 3}, size=before.get_vocab_size())
    assert after.get_vocab() == before.get_vocab()


def test_what_cannot_be_grown_is_refused(before: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="a WordPiece tokenizer cannot be grown; BPE can"):
        grow_tokenizer(wordpiece(LEARNT_FROM), {"es": NEW}, size=10_000)
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size is 5; the base's vocabulary has"):
        grow_tokenizer(before, {"es": NEW}, size=5)
    before.add_tokens(["<more>"])
    with pytest.raises(ConfigError, match="added tokens beyond its model: it cannot be grown"):
        grow_tokenizer(before, {"es": NEW}, size=10_000)
