import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from export.checkpoint import read_checkpoint
from export.errors import BadCheckpoint, BadRequest
from tests.export.checkpoints import MINILM, write_record


@pytest.fixture
def copy(student: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(student, tmp_path / "copy"))


def test_the_record_names_the_model(student: Path) -> None:
    record = read_checkpoint(student).record
    assert (record.name, record.languages, record.max_length) == ("tiny-student", ("en", "de"), 32)


def test_options_replace_what_the_record_says(student: Path) -> None:
    record = read_checkpoint(student, name="other", languages=("tr",)).record
    assert (record.name, record.languages, record.max_length) == ("other", ("tr",), 32)


def test_the_reference_cuts_where_the_record_says(copy: Path) -> None:
    write_record(copy, max_length=7)
    assert read_checkpoint(copy).model.max_seq_length == 7


def test_a_checkpoint_of_others_needs_a_name_and_languages() -> None:
    with pytest.raises(BadRequest, match=r"has no crosslet.json: give --name and --languages"):
        read_checkpoint(MINILM, name="minilm")
    assert read_checkpoint(MINILM, name="minilm", languages=("en",)).record.max_length == 256


def test_the_tokenizer_neither_cuts_nor_pads(student: Path) -> None:
    tokenizer = read_checkpoint(student).tokenizer
    assert tokenizer.truncation is None
    assert tokenizer.padding is None
    assert tokenizer.encode("a").tokens == ["[CLS]", "a", "[SEP]"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"nowhere does not exist \(--checkpoint\)"):
        read_checkpoint(tmp_path / "nowhere")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"has no modules.json: it is not a sentence-transformers checkpoint"):
        read_checkpoint(tmp_path)


def test_damaged_weights_are_refused_in_one_line(copy: Path) -> None:
    (copy / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(BadCheckpoint, match=r"copy cannot be loaded \(.+\)$") as caught:
        read_checkpoint(copy)
    assert "\n" not in str(caught.value)


def test_a_record_with_a_wrong_value_is_refused(copy: Path) -> None:
    write_record(copy, sts_gate=[["high", "a", "b"]])
    with pytest.raises(BadCheckpoint, match=r"crosslet.json: sts_gate.0.0: Input should be a valid number"):
        read_checkpoint(copy)


def test_positions_that_no_text_comes_to_are_left_out(copy: Path) -> None:
    whole = read_checkpoint(copy).model  # of texts of 32 tokens
    write_record(copy, max_length=7)
    short = read_checkpoint(copy).model
    tables = [model[0].auto_model.body.embeddings.position_embeddings.weight for model in (whole, short)]
    assert [len(table) for table in tables] == [32, 7]
    assert torch.equal(tables[0][:7], tables[1])
    assert np.allclose(whole.encode("a b c"), short.encode("a b c"), atol=1e-6)


def test_a_length_beyond_the_positions_of_the_body_is_refused(copy: Path) -> None:
    write_record(copy, max_length=65)
    with pytest.raises(BadCheckpoint, match="max_length is 65, the body has 64 positions"):
        read_checkpoint(copy)
