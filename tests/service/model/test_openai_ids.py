"""Token ids of cl100k_base against tiktoken, which reads the same file."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.model import openai_ids
from service.model.openai_ids import OpenAIVocabulary
from tests.openai_vocabulary import ranks, tiktoken_folder


@pytest.fixture(scope="module")
def vocabulary() -> OpenAIVocabulary:
    installed = OpenAIVocabulary.installed()
    assert installed is not None
    return installed


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tiktoken.Encoding:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(tiktoken_folder(tmp_path_factory.mktemp("tiktoken"))))
        return tiktoken.get_encoding("cl100k_base")


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_ids_decode_to_the_text_they_come_from(
    vocabulary: OpenAIVocabulary, reference: tiktoken.Encoding, text: str
) -> None:
    ids = reference.encode(text, disallowed_special=())
    assert vocabulary.text(ids) == text
    assert vocabulary.size_of(ids) == len(text.encode())


def test_every_id_has_the_bytes_of_tiktoken(vocabulary: OpenAIVocabulary, reference: tiktoken.Encoding) -> None:
    assert vocabulary.size == reference.n_vocab
    special = {reference.encode_single_token(name) for name in reference.special_tokens_set}
    for id_ in [*range(100_256), *special]:
        assert vocabulary.size_of([id_]) == len(reference.decode_single_token_bytes(id_))
    assert vocabulary.text(sorted(special)) == reference.decode(sorted(special))


def test_part_of_a_character_at_an_end_is_left_out(vocabulary: OpenAIVocabulary, reference: tiktoken.Encoding) -> None:
    ids = reference.encode("a🧿b")
    within = [place for place in range(1, len(ids)) if "\ufffd" in reference.decode(ids[:place])]
    assert within
    for place in within:
        assert vocabulary.text(ids[:place]) == "a"
        assert vocabulary.text(ids[place:]) == "b"


@pytest.mark.parametrize("ids", [[-1], [100_277], [100_256], [64, 254, 64]])
def test_ids_that_are_no_text_are_refused(vocabulary: OpenAIVocabulary, ids: list[int]) -> None:
    with pytest.raises(InvalidInput, match="token id"):
        vocabulary.text(ids)


def test_other_bytes_are_no_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "carrier"
    package.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(openai_ids, "PLACES", {"carrier": "ranks.gz"})
    whole = ranks(tmp_path)
    for content in (b"", b"no gzip", gzip.compress(whole[:-1]), gzip.compress(whole)[:-9]):
        (package / "ranks.gz").write_bytes(content)
        assert OpenAIVocabulary.installed() is None
    (package / "ranks.gz").write_bytes(gzip.compress(whole))
    assert OpenAIVocabulary.installed() is not None


def test_reading_the_vocabulary_imports_no_package() -> None:
    code = "import sys; from service.model.openai_ids import openai_vocabulary; assert openai_vocabulary(); "
    code += "sys.exit(any(name.split('.')[0] in {'bpe_openai', 'tiktoken', 'litellm'} for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
