from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from tests.training.models.bases import FAMILIES, SIZES, save_family
from tests.training.reranking.small import TEXTS
from training.errors import ConfigError
from training.models.cross_encoder import CrossEncoder, load_base
from training.reranking.body import small_body
from training.reranking.config import BodyConfig
from training.reranking.scorers import CrossEncoderScorer

EVERY_LAYER = list(range(SIZES["num_hidden_layers"]))


Base = tuple[CrossEncoder, PreTrainedTokenizerBase]


@pytest.fixture
def bert(tmp_path: Path) -> Base:
    return load_base(str(save_family("bert", tmp_path / "base", TEXTS)), attention="eager")


def scores(model, tokenizer) -> np.ndarray:
    return CrossEncoderScorer(model, tokenizer, max_length=32).scores(TEXTS[:6], TEXTS[12:18])


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "roberta"])  # byte-level BPE keeps its bytes
def test_all_layers_and_used_pieces_score_as_the_whole_body(family: str, tmp_path: Path) -> None:
    whole, tokenizer = load_base(str(save_family(family, tmp_path / "base", TEXTS)), attention="eager")
    config = BodyConfig(layers=EVERY_LAYER, vocab_size=10_000)
    small, pruned = small_body(whole, tokenizer, config, TEXTS)
    assert len(pruned) <= len(tokenizer)
    small.head.load_state_dict(whole.head.state_dict())
    np.testing.assert_allclose(scores(small, pruned), scores(whole, tokenizer), atol=1e-5)


def test_a_small_body_keeps_frequent_pieces_and_given_layers(bert: Base) -> None:
    whole, tokenizer = bert
    size = len(tokenizer) - 8
    config = BodyConfig(layers=[0, 2], vocab_size=size, bottleneck_size=8)
    small, pruned = small_body(whole, tokenizer, config, TEXTS)
    assert len(pruned) <= size
    table = small.encoder.get_input_embeddings().table.weight
    assert table.shape == (len(pruned), 8)
    layers = small.encoder.body.encoder.layer
    assert len(layers) == 2
    kept, given = layers[1].state_dict(), whole.encoder.encoder.layer[2].state_dict()
    assert all(np.array_equal(kept[name], given[name]) for name in given)


def test_a_bottleneck_of_the_base_is_kept(bert: Base) -> None:
    narrow = BodyConfig(layers=EVERY_LAYER, vocab_size=10_000, bottleneck_size=8)
    first, tokenizer = small_body(*bert, narrow, TEXTS)
    smaller = BodyConfig(layers=EVERY_LAYER, vocab_size=len(tokenizer) - 4)
    again, pruned = small_body(first, tokenizer, smaller, TEXTS)
    again.head.load_state_dict(first.head.state_dict())
    assert again.encoder.get_input_embeddings().table.weight.shape == (len(pruned), 8)
    frequent = [TEXTS[0].split()[0]]
    expected, actual = (
        CrossEncoderScorer(model, cut, max_length=32).scores(frequent, frequent)
        for model, cut in ((first, tokenizer), (again, pruned))
    )
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    with pytest.raises(ConfigError, match=r"body\.bottleneck_size is 4; the base has a bottleneck of 8"):
        small_body(first, tokenizer, BodyConfig(layers=[0], vocab_size=300, bottleneck_size=4), TEXTS)


def test_a_layer_that_is_not_there_and_a_student_are_refused(bert: Base, base: Path) -> None:
    whole, tokenizer = bert
    with pytest.raises(ConfigError, match=r"body\.layers has 9; the base's are 0 to 3"):
        small_body(whole, tokenizer, BodyConfig(layers=[0, 9], vocab_size=300), TEXTS)
    student, tokenizer = load_base(str(base), attention="eager")
    with pytest.raises(ConfigError, match="has a recurrent unit"):
        small_body(student, tokenizer, BodyConfig(layers=[0], vocab_size=300), TEXTS)
