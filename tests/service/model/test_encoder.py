import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from service.errors import ArtifactError, InvalidInput, ParityFailed, TextTooLong
from service.model.encoder import MOST_SPECIALS, Encoder, choose_encoder, load_encoder
from service.model.prompts import Prompts
from service.model.session import Session
from service.model.tokenizer import Tokenizer
from service.settings import BUNDLED_MODEL
from tests.artifacts import DIM, MAX_LENGTH, TEXTS, build_artifact, write_manifest
from tests.vocabularies import byte_level_bpe, unigram, wordpiece


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_encoder(tiny_model)


@given(text=st.text(min_size=1, max_size=200))
def test_any_unicode_text_gives_a_unit_vector(encoder: Encoder, text: str) -> None:
    encoded = encoder.encode(text)
    assert encoded.vector.shape == (DIM,)
    assert abs(float(np.linalg.norm(encoded.vector)) - 1) < 1e-5
    assert encoded.tokens <= MAX_LENGTH


def test_a_text_and_its_own_token_ids_give_the_same_vector(encoder: Encoder, tiny_model: Path) -> None:
    parity = json.loads((tiny_model / "parity.json").read_text(encoding="utf-8"))
    for text, ids in zip(parity["texts"], parity["input_ids"], strict=True):
        assert np.array_equal(encoder.encode(text).vector, encoder.encode(tuple(ids)).vector)


def test_a_text_that_is_cut_has_the_vector_of_its_own_token_ids(encoder: Encoder, tiny_model: Path) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    text = " ".join(["guitar"] * 50)
    ids = tuple(tokenizer.encode(text).ids)
    assert len(ids) > MAX_LENGTH
    assert np.array_equal(encoder.encode(ids).vector, encoder.encode(text).vector)
    assert not np.array_equal(encoder.encode(ids[:-1]).vector, encoder.encode(text).vector)  # no end is made up


def test_token_ids_do_not_wait_for_the_tokenizer(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To count a vocabulary of eighty thousand pieces takes it longer than a short text takes the model."""
    encoder = load_encoder(tiny_model)
    encoder.encode((2, 5, 3))
    monkeypatch.setattr(encoder._tokenizer, "_tokenizer", None)
    assert encoder.encode((2, 5, 3)).tokens == 3


def test_a_cut_is_reported_and_if_forbidden_names_both_lengths(encoder: Encoder) -> None:
    encoded = encoder.encode("guitar " * 50)
    assert encoded.truncated
    assert encoded.tokens == MAX_LENGTH
    with pytest.raises(TextTooLong, match=f"has {encoded.full_length} tokens; the model reads {MAX_LENGTH}"):
        encoder.encode("guitar " * 50, truncate=False)


@pytest.mark.parametrize("token", [-1, 10**6])
def test_an_unknown_token_id_is_refused(encoder: Encoder, token: int) -> None:
    with pytest.raises(InvalidInput, match="outside the vocabulary"):
        encoder.encode((2, token, 3))


@pytest.fixture
def copy(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "copy"))


@pytest.fixture
def moved(copy: Path, tmp_path: Path) -> Path:
    """A folder whose hashes agree and whose vectors do not: what a CPU with other int8 arithmetic sees."""
    build_artifact(tmp_path / "other", seed=1)
    shutil.copy(tmp_path / "other" / "model.onnx", copy / "model.onnx")
    write_manifest(copy)
    return copy


def test_a_tokenizer_that_moved_from_its_parity_pack_is_refused(copy: Path) -> None:
    tokenizer = json.loads((copy / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["normalizer"] = None  # no more lower-casing
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    write_manifest(copy)
    with pytest.raises(ArtifactError, match="other token ids"):
        load_encoder(copy)


def add_token(folder: Path) -> int:
    """Give the tokenizer one id more than the graph has embeddings, and return how many these are."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = tokenizer.get_vocab_size()
    tokenizer.add_tokens(["kaputt"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return rows


@pytest.mark.parametrize(("model", "dim"), [(None, DIM), (BUNDLED_MODEL, 384)], ids=["float", "4 bits"])
def test_token_id_without_embedding_is_refused(tiny_model: Path, tmp_path: Path, model: Path | None, dim: int) -> None:
    """Beyond a table of 4 bits no operator raises: the text would get a vector of no meaning."""
    folder = Path(shutil.copytree(model or tiny_model, tmp_path / "copy"))
    rows = add_token(folder)
    write_manifest(folder, dim=dim)
    sentence = (
        rf"token ids up to {rows}, .* table of model\.onnx has {rows} rows, for 0 to {rows - 1}: export the model"
    )
    with pytest.raises(ArtifactError, match=sentence):
        load_encoder(folder)


def test_where_the_table_cannot_be_read_the_highest_id_is_tried(copy: Path) -> None:
    model = onnx.load(str(copy / "model.onnx"))
    model.graph.node[0].input[1] = "same_ids"
    model.graph.node.insert(0, onnx.helper.make_node("Identity", ["input_ids"], ["same_ids"]))
    onnx.save(model, str(copy / "model.onnx"))
    write_manifest(copy)
    load_encoder(copy)
    add_token(copy)
    write_manifest(copy)
    with pytest.raises(ArtifactError, match=r"has token ids up to \d+, but model\.onnx fails on that one: export"):
        load_encoder(copy)


def test_a_graph_of_another_width_is_refused(copy: Path) -> None:
    write_manifest(copy, dim=DIM + 1)
    with pytest.raises(ArtifactError, match=f"gives {DIM} dims; the manifest says {DIM + 1}"):
        load_encoder(copy)


def test_a_file_that_is_no_graph_is_refused(copy: Path, tiny_model: Path) -> None:
    (copy / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ArtifactError, match="manifest says"):  # though there is a fallback
        choose_encoder(copy, tiny_model)
    write_manifest(copy)
    with pytest.raises(ArtifactError, match=r"model\.onnx cannot be loaded"):
        load_encoder(copy)


def test_where_parity_fails_the_fallback_is_served_and_says_why(moved: Path, tiny_model: Path, tmp_path: Path) -> None:
    choice = choose_encoder(moved, tiny_model)
    assert choice.encoder.manifest == load_encoder(tiny_model).manifest
    assert choice.refused is not None
    assert "the minimum is" in choice.refused
    assert choose_encoder(tiny_model, tmp_path / "nowhere").refused is None


def test_without_a_fallback_the_refusal_names_the_setting(moved: Path) -> None:
    with pytest.raises(ParityFailed, match=r"another precision on this CPU \(CROSSLET_FALLBACK_MODEL\)"):
        choose_encoder(moved, None)


ENDS = ["\n", " ", "\t\r\n", "\xa0", "\u3000", "\u2028", "\x85", "\u200b", "\ufeff", " \u200b\n\u200e ", "\x1f"]


@pytest.fixture(scope="module")
def bundled() -> Encoder:
    return load_encoder(BUNDLED_MODEL)


@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_white_space_at_the_ends_changes_no_vector(bundled: Encoder, end: str) -> None:
    for word in ["Sarei", "図書館", "लड़का", "ฉัน"]:
        expected = bundled.encode(word)
        for text in (word + end, end + word, end + word + end):
            (found,) = bundled.encode_all([text])
            assert np.array_equal(found.vector, expected.vector)
            assert (found.tokens, found.full_length) == (expected.tokens, expected.full_length)
            assert bundled.windows(text, prompt="") == bundled.windows(word, prompt="")


def test_white_space_inside_a_text_still_counts(bundled: Encoder) -> None:
    assert not np.array_equal(bundled.encode("in to").vector, bundled.encode("into").vector)


@pytest.mark.parametrize(("make", "strips"), [(wordpiece, True), (unigram, False), (byte_level_bpe, False)])
@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_every_kind_of_tokenizer_reads_no_white_space_at_ends(
    tmp_path: Path, make: Callable[[tuple[str, ...]], tokenizers.Tokenizer], strips: bool, end: str
) -> None:
    make(TEXTS).save(str(tmp_path / "tokenizer.json"))
    tokenizer, prompts = Tokenizer(tmp_path / "tokenizer.json", max_length=64), Prompts({"query": "query: ", "no": ""})
    assert tokenizer.strips == strips
    for prompt in ("", "query: "):
        expected = tokenizer.tokenise(prompt + TEXTS[0])
        assert tokenizer.tokenise(prompts.stripped(prompt + end + TEXTS[0] + end)) == expected


def test_a_prompt_of_many_bytes_surely_fits_with_no_text(encoder: Encoder, tmp_path: Path) -> None:
    byte_level_bpe(TEXTS[:1]).save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", max_length=MAX_LENGTH)
    of_bytes = Encoder(encoder.manifest, tokenizer, encoder._session)
    for prompt in ("查询用语：", "find "):
        text = "z" * (MAX_LENGTH - MOST_SPECIALS - len(prompt))
        fits = len(tokenizer.whole(prompt + text)) <= MAX_LENGTH
        assert of_bytes.surely_fits(text, prompt=prompt) is fits is prompt.isascii()


def test_a_prompt_keeps_its_white_space() -> None:
    prompts = Prompts({"query": "query: ", "document": "passage:\n", "short": "q"})
    assert prompts.stripped("query: \n guitar\n") == "query: guitar"
    assert prompts.stripped("passage:\n guitar") == "passage:\nguitar"
    assert prompts.stripped("query: ") == "query: "
    assert prompts.stripped(" \n") == " \n"  # else a tokenizer without special tokens gives no id


def test_a_recorded_text_is_read_as_it_is(tmp_path: Path) -> None:
    build_artifact(tmp_path)
    unigram(TEXTS).save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", max_length=MAX_LENGTH)
    session = Session(tmp_path / "model.onnx", dim=DIM)
    pack = json.loads((tmp_path / "parity.json").read_text(encoding="utf-8"))
    pack["texts"] = [f"{text}\n" for text in pack["texts"]]
    pack["input_ids"] = [tokenizer.tokenise(text).input_ids for text in pack["texts"]]
    pack["embeddings"] = [session.run([ids])[0].tolist() for ids in pack["input_ids"]]
    (tmp_path / "parity.json").write_text(json.dumps(pack), encoding="utf-8")
    write_manifest(tmp_path)
    encoder = load_encoder(tmp_path)
    assert encoder.tokenise(pack["texts"])[0].input_ids != pack["input_ids"][0]
