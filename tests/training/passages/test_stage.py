import json
from pathlib import Path

import pytest
import torch
import yaml
from transformers import BertConfig, BertModel

from tests.parallel_text import write_data_folder
from tests.training.files import write
from tests.vocabularies import bpe
from training.__main__ import main
from training.models.encoder import CrossletConfig, CrossletEncoder, lengthen_positions, shape_of, word_table
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.passages.stage import TIE, least_of_best
from training.vocabulary.tokenizer import wrap_tokenizer

PLACES = ("Ulm", "Bonn", "Graz", "Linz", "Bern", "Kiel", "Gent", "Brno", "Lodz", "Riga", "Oslo", "Turku")
FACTS = ("has a harbour", "makes clocks", "grows apples", "sells salt", "builds ships", "teaches music")


def shape(positions: int) -> BertConfig:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return BertConfig(vocab_size=400, max_position_embeddings=positions, **sizes)


def short_encoder() -> CrossletEncoder:
    torch.manual_seed(0)
    return CrossletEncoder(CrossletConfig(base=shape_of(shape(16)), bottleneck_size=8)).eval()


def test_new_positions_follow_the_mean_move_of_trained_ones() -> None:
    short, table_LH = short_encoder(), torch.randn(40, 16)
    own_LH = short.body.embeddings.position_embeddings.weight.detach().clone()
    longer = lengthen_positions(short, table_LH, trained=12, length=30)
    rows_LH = longer.body.embeddings.position_embeddings.weight
    assert torch.equal(rows_LH[:12], own_LH[:12])
    assert torch.allclose(rows_LH[12:], table_LH[12:30] + (own_LH[8:12] - table_LH[8:12]).mean(dim=0))
    ids = torch.arange(5, 15)[None]
    assert torch.equal(longer(ids, torch.ones_like(ids))[0], short(ids, torch.ones_like(ids))[0])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of stage 5 alone: from a checkpoint of 16 positions, with a teacher and base of 40."""
    root = tmp_path_factory.mktemp("passages")
    data = write_data_folder(root / "data", pairs_per_language=200, evaluation=30)
    rows = [(f"Which town {fact} near {place}?", f"The town of {place} {fact}.") for place in PLACES for fact in FACTS]
    lines = [json.dumps({"query": query, "positive": text, "qlang": "en", "plang": "en"}) for query, text in rows]
    write(data / "qa/towns.jsonl", *lines)
    bpe([text for row in rows for text in row]).save(str(root / "tokenizer.json"))
    tokenizer = wrap_tokenizer(root / "tokenizer.json", max_length=40)
    save_sentence_encoder(SentenceEncoder(short_encoder(), normalized=True), tokenizer, root / "small", max_length=16)
    (root / "small/crosslet.json").write_text(json.dumps({"data": [{"source": "of the checkpoint"}]}))
    BertModel(shape(40)).save_pretrained(root / "base")
    tokenizer.save_pretrained(root / "base")
    config = {
        "name": "tiny",
        "languages": ["de", "es"],
        "corpus": {"sources": {"sentences": {}}},
        "continue_from": str(root / "small"),
        "teacher": str(root / "base"),
        "tokenizer": {"kind": "kept"},
        "student": {"bottleneck_size": 8, "unit_layers": 2, "recurrences": 1, "max_length": 32},
        "stages": ["passages"],
        "passages": {
            **{"sets": {"towns": {}}, "teacher": str(root / "base"), "pairs": 96, "batch_size": 16, "hard": 8},
            **{"kept": 16, "kept_texts": 40, "max_length": 32, "learning_rate": 3e-3, "validate_pairs": 48},
        },
        "evaluation": {"steps": []},
    }
    path = root / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    assert main(["--config", str(path), "--data", str(data), "--out", str(root / "out")]) == 0
    return root


def test_the_model_reads_as_many_tokens_as_configured(finished: Path) -> None:
    model = load_sentence_encoder(finished / "out/final/checkpoint")
    assert len(model.encoder.body.embeddings.position_embeddings.weight) == 32


def test_words_stay_and_the_strength_kept_is_among_the_best(finished: Path) -> None:
    models = [load_sentence_encoder(finished / name) for name in ("small", "out/passages/checkpoint")]
    assert torch.equal(*(word_table(model.encoder).weight for model in models))
    record = json.loads((finished / "out/passages/strengths.json").read_text())
    means = {float(strength): scores["mean"] for strength, scores in record["judged"].items()}
    assert set(means) == {0.0, 0.5, 0.75, 1.0}
    assert means[record["kept"]] >= max(means.values()) - TIE


def test_of_nearly_equal_strengths_the_least_is_kept() -> None:
    assert least_of_best({0.0: 75.6, 0.75: 76.86, 1.0: 76.87}) == 0.75
    assert least_of_best({0.0: 75.6, 0.75: 76.5, 1.0: 76.87}) == 1.0
    assert least_of_best({0.0: 75.6, 0.75: 75.6 + TIE / 2}) == 0.0


def test_the_card_names_the_sources_of_all_training(finished: Path) -> None:
    record = json.loads((finished / "out/final/checkpoint/crosslet.json").read_text())
    assert [row["source"] for row in record["data"]] == ["of the checkpoint", "sentences", "towns"]
    assert record["max_length"] == 32
