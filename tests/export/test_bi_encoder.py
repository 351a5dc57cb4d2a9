import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    Data2VecTextConfig,
    DistilBertConfig,
    PretrainedConfig,
    RobertaConfig,
)

from export.bi_encoder import read_checkpoint
from export.errors import BadCheckpoint, BadRequest
from tests.export.checkpoints import MINILM, SMALL_BODY, write_record

VOCAB_SIZE = 30_522  # MiniLM's
BODY = {**SMALL_BODY, "vocab_size": VOCAB_SIZE}


@pytest.fixture
def copy(student: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(student, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("options", "name", "languages"),
    [({}, "tiny-student", ("en", "de")), ({"name": "other", "languages": ("tr",)}, "other", ("tr",))],
)
def test_the_record_names_the_model_unless_options_do(
    student: Path, options: dict[str, Any], name: str, languages: tuple[str, ...]
) -> None:
    record = read_checkpoint(student, **options).record
    assert (record.name, record.languages, record.max_length) == (name, languages, 32)


def test_the_reference_cuts_where_the_record_says(copy: Path) -> None:
    write_record(copy, max_length=7)
    assert read_checkpoint(copy).model.max_seq_length == 7


def test_checkpoint_without_record_needs_name_and_languages() -> None:
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


def test_a_model_without_a_transformer_is_refused(tmp_path: Path) -> None:
    words = StaticEmbedding(AutoTokenizer.from_pretrained(MINILM), embedding_dim=8)
    SentenceTransformer(modules=[words], device="cpu").save(str(tmp_path / "static"), create_model_card=False)
    with pytest.raises(BadCheckpoint, match="static begins with a StaticEmbedding, not with a transformer body"):
        read_checkpoint(tmp_path / "static", name="x", languages=("en",))


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (BertConfig(**BODY), 20),
        (RobertaConfig(**BODY, pad_token_id=1), 22),
        (DistilBertConfig(vocab_size=VOCAB_SIZE, dim=32, n_layers=2, n_heads=4, max_position_embeddings=66), 20),
        (Data2VecTextConfig(**BODY, pad_token_id=1), 66),  # numbers positions from an offset that nothing here knows
    ],
    ids=lambda value: getattr(value, "model_type", value),
)
def test_unreachable_positions_are_dropped(config: PretrainedConfig, kept: int, tmp_path: Path) -> None:
    AutoModel.from_config(config).save_pretrained(tmp_path / "body")
    tokenizer = AutoTokenizer.from_pretrained(MINILM, model_input_names=["input_ids", "attention_mask"])
    tokenizer.save_pretrained(tmp_path / "body")
    modules = [Transformer(str(tmp_path / "body"), max_seq_length=20), Pooling(32, "mean")]
    whole = SentenceTransformer(modules=modules, device="cpu").eval()
    whole.save(str(tmp_path / "model"), create_model_card=False)
    write_record(tmp_path / "model", max_length=20)
    short = read_checkpoint(tmp_path / "model").model
    assert len(short[0].auto_model.embeddings.position_embeddings.weight) == kept
    texts = ["a", "a b c " * 30]
    np.testing.assert_allclose(short.encode(texts), whole.encode(texts), atol=1e-6)


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"sts_gate": [["high", "a", "b"]]}, r"crosslet.json: sts_gate.0.0: Input should be a valid number"),
        ({"max_length": 65}, "max_length is 65, but the body has 64 positions"),
    ],
)
def test_a_record_that_cannot_be_met_is_refused(copy: Path, record: dict[str, object], complaint: str) -> None:
    write_record(copy, **record)
    with pytest.raises(BadCheckpoint, match=complaint):
        read_checkpoint(copy)


def test_a_token_without_an_embedding_is_refused(copy: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(copy)
    rows = len(tokenizer)
    tokenizer.add_tokens(["zzznew"])
    tokenizer.save_pretrained(copy)
    with pytest.raises(BadCheckpoint, match=rf"token 'zzznew' has id {rows}, but there are \d+ word embeddings"):
        read_checkpoint(copy)
