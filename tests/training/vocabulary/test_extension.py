"""New pieces: fewer tokens in one language, the same in all others, and SentencePiece reads them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers

from service.model.tokenizer_file import UnigramTokenizer, is_unigram
from tests.training.alignment.files import IN_GREEK, PAIRS
from tests.vocabularies import unigram, wordpiece
from training.errors import ConfigError
from training.vocabulary.extension import LEAST_COUNT, Piece, extended, new_pieces, parts_of

ENGLISH = [english for english, _ in PAIRS]
GERMAN = [german for _, german in PAIRS]
GREEK = [greek for _, greek in IN_GREEK]
KNOWN = unigram(ENGLISH)
KNOWN.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)


def pieces_of(texts: list[str], *, most: int = 200) -> list[Piece]:
    return new_pieces(KNOWN, texts, most, others=ENGLISH, languages=2)


def ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)]


@pytest.mark.parametrize("texts", [GREEK, GERMAN])
def test_a_language_is_cut_into_fewer_pieces_all_of_them_known(texts: list[str]) -> None:
    after = extended(KNOWN, pieces_of(texts))
    unknown = KNOWN.token_to_id("<unk>")
    assert any(unknown in row for row in ids(KNOWN, texts))
    assert not any(unknown in row for row in ids(after, texts))
    assert sum(map(len, ids(after, texts))) < 0.6 * sum(map(len, ids(KNOWN, texts)))


@pytest.mark.parametrize("texts", [GREEK, GERMAN])
def test_what_the_model_knows_is_cut_as_before(texts: list[str]) -> None:
    after = extended(KNOWN, pieces_of(texts))
    assert ids(after, ENGLISH) == ids(KNOWN, ENGLISH)
    assert {piece: after.get_vocab()[piece] for piece in KNOWN.get_vocab()} == KNOWN.get_vocab()


def test_a_piece_that_would_change_another_language_is_left_out() -> None:
    free = new_pieces(KNOWN, GERMAN, 200, others=[], languages=2)
    changed = extended(KNOWN, free)
    assert ids(changed, GREEK) != ids(KNOWN, GREEK)
    kept = new_pieces(KNOWN, GERMAN, 200, others=GREEK, languages=2)
    assert 0 < len(kept) < len(free)
    assert ids(extended(KNOWN, kept), GREEK) == ids(KNOWN, GREEK)


def test_there_are_at_most_so_many_and_characters_come_first() -> None:
    few = [piece for piece, _ in pieces_of(GREEK, most=12)]
    assert [len(piece) for piece in few] == [1] * 12
    assert set(few) <= {piece for piece, _ in pieces_of(GREEK)}


def test_a_rare_word_is_no_piece() -> None:
    found = {piece for piece, _ in pieces_of([*GREEK, *["ξένος"] * (LEAST_COUNT - 1)])}
    assert "ξ" in found
    assert not any(len(piece) > 2 and "ξ" in piece for piece in found)


def test_a_piece_replaces_those_that_it_was_cut_into() -> None:
    vocabulary = KNOWN.get_vocab()
    assert parts_of(KNOWN, [("bread", 0.0), ("αβ", 0.0), ("bα", 0.0)]) == [
        [vocabulary[one] for one in "bread"], [], [vocabulary["b"]],
    ]  # fmt: skip


WHOLE = extended(KNOWN, pieces_of(GREEK))
WHOLE.encode_special_tokens = True
STATE = json.loads(WHOLE.to_str())


@given(st.text(st.sampled_from("αειρστνδλκ Dbmu.\u0301▁ξ"), max_size=40) | st.sampled_from(GREEK + ENGLISH))
def test_the_service_cuts_as_training_does(text: str) -> None:
    assert is_unigram(STATE)
    assert UnigramTokenizer(STATE).encode(text) == WHOLE.encode(text).ids


def test_other_kinds_of_vocabulary_are_refused() -> None:
    with pytest.raises(ConfigError, match="the model's vocabulary is WordPiece; pieces can be added to Unigram alone"):
        new_pieces(wordpiece(ENGLISH), GREEK, 10, others=[], languages=1)
