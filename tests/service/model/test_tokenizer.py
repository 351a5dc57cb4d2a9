import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from service.errors import ArtifactError
from service.model.tokenizer import Tokenizer, normalised_length
from tests.artifacts import MAX_LENGTH, TEXTS


@pytest.fixture(scope="module")
def path(tiny_model: Path) -> Path:
    return tiny_model / "tokenizer.json"


@given(words=st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=40), max_length=st.integers(3, MAX_LENGTH))
def test_the_cut_is_the_one_the_tokenizers_library_makes(path: Path, words: list[str], max_length: int) -> None:
    reference = tokenizers.Tokenizer.from_file(str(path))
    reference.enable_truncation(max_length)
    text = " ".join(words)
    assert Tokenizer(path, max_length=max_length).tokenise(text).input_ids == reference.encode(text).ids


def test_the_full_length_counts_what_was_cut(path: Path) -> None:
    tokenised = Tokenizer(path, max_length=8).tokenise("guitar " * 50)
    assert len(tokenised.input_ids) == 8
    assert tokenised.full_length > 50


def test_texts_together_have_the_tokens_that_each_has_alone(path: Path) -> None:
    tokenizer = Tokenizer(path, max_length=8)
    for texts in ([*TEXTS, "guitar " * 50, ""], ["guitar " * 5000, *TEXTS], []):
        assert tokenizer.tokenise_all(texts) == [tokenizer.tokenise(text) for text in texts]


def test_a_long_text_is_not_tokenised_beside_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, alone = Tokenizer(path, max_length=8), []
    tokenise = tokenizer.tokenise
    monkeypatch.setattr(tokenizer, "tokenise", lambda text: (alone.append(text), tokenise(text))[1])
    tokenizer.tokenise_all(TEXTS)
    assert not alone
    texts = ["\ufdfa" * 400] * 2  # each is 7,200 characters when it is normalised
    tokenizer.tokenise_all(texts)
    assert alone == texts


@pytest.mark.parametrize("missing", [range(0), range(3, 40), range(30, 900, 2), [0], range(1, 900)])
@pytest.mark.parametrize("added", [[], ["[NEW]"]])
def test_highest_id_is_found_past_unused_ids(tmp_path: Path, missing: Iterable[int], added: list[str]) -> None:
    vocabulary = {f"word{id_}": id_ for id_ in range(1000) if id_ not in set(missing)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="word999"))
    tokenizer.add_tokens(added)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    found = Tokenizer(tmp_path / "tokenizer.json", max_length=8).highest_id
    assert found == max(tokenizer.get_vocab(with_added_tokens=True).values())


def test_truncation_written_in_the_file_is_not_trusted(path: Path, tmp_path: Path) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    expected = Tokenizer(path, max_length=MAX_LENGTH).tokenise(TEXTS[0])
    assert Tokenizer(tmp_path / "tokenizer.json", max_length=MAX_LENGTH).tokenise(TEXTS[0]) == expected


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"tokenizer\.json cannot be loaded"):
        Tokenizer(tmp_path / "tokenizer.json", max_length=8)


def test_a_ligature_counts_as_the_characters_that_it_stands_for() -> None:
    assert [normalised_length(text) for text in ("guitar", "\ufdfa \ufdfa", "㌀x", "吉他")] == [6, 37, 5, 2]


@given(character=st.characters(exclude_categories=["Cs"]), times=st.integers(1, 50))
def test_no_text_is_taken_for_less_than_half_of_what_it_becomes(character: str, times: int) -> None:
    assert 2 * normalised_length(times * character) >= len(unicodedata.normalize("NFKC", times * character))
