from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from tests.export.checkpoints import MINILM
from tests.training.tiny import tiny_sentence_encoder
from training.adaptation.job import anchor_of
from training.adaptation.lesson import KEPT_SHARE, Lesson, Passes, kept_texts, make_lesson, pair_labels
from training.adaptation.trainer import freeze, move_weights
from training.alignment.scores import read_probe
from training.corpora.leakage import EvaluationSentences

PAIRS = [(f"A sentence of number {number}.", f"Ein Satz mit Nummer {number}.") for number in range(40)]
KEPT = ["Das bleibt.", "This stays.", "Ceci reste."]


def lesson(anchor: int | None = None) -> Lesson:
    generator = np.random.default_rng(0)
    vectors = {text: generator.standard_normal(8).astype(np.float32) for pair in PAIRS for text in pair}
    vectors |= {text: generator.standard_normal(8).astype(np.float32) for text in KEPT}
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    return make_lesson(
        PAIRS,
        KEPT,
        lambda texts: np.stack([vectors[text] for text in texts]),
        tokenizer,
        anchor=anchor,
        max_length=16,
    )


def test_pass_has_each_pair_once_and_texts_to_keep() -> None:
    made = lesson()
    plan = Passes(made, rounds=3, seed=0)
    rounds = [plan.round(index) for index in range(3)]
    assert len(plan) == sum(map(len, rounds))
    for order in rounds:
        pairs = order[order < 2 * len(PAIRS)] % len(PAIRS)
        assert sorted(pairs) == list(range(len(PAIRS)))
        assert len(order) - len(pairs) == min(len(KEPT), round(KEPT_SHARE * len(PAIRS)))
    assert not np.array_equal(rounds[0], rounds[1])
    turned = made.corpus.texts[made.corpus.english[len(PAIRS)]]
    assert turned == PAIRS[0][1]


def test_label_of_a_pair_is_its_known_side_or_the_middle() -> None:
    vectors = np.array([[1, 0], [0, 1], [3, 4]], dtype=np.float32)
    left, right = np.array([0], dtype=np.int32), np.array([1], dtype=np.int32)
    middle = pair_labels(vectors, left, right, None)
    np.testing.assert_allclose(middle[:2], np.full((2, 2), np.sqrt(0.5)), atol=1e-6)
    np.testing.assert_allclose(pair_labels(vectors, left, right, 0)[:2], [[1, 0], [1, 0]], atol=1e-6)
    np.testing.assert_allclose(middle[2], [0.6, 0.8], atol=1e-6)


def test_the_side_that_a_model_knows_alone_is_the_anchor() -> None:
    assert anchor_of(("en", "ro"), ["de", "en"]) == 0
    assert anchor_of(("ro", "zh_Hant"), ["zh"]) == 1
    assert anchor_of(("en", "de"), ["de", "en"]) is None
    assert anchor_of(("ro", "hu"), ["de", "en"]) is None
    assert anchor_of(("en", "ro"), None) is None


def test_kept_text_has_18_languages_and_no_measured_sentence() -> None:
    texts = kept_texts(None)
    assert len(texts) == len(set(texts)) == 20 * len(read_probe())
    shipped = EvaluationSentences.shipped()
    assert [text for text in texts if text in shipped] == []
    assert kept_texts(["zh_Hant", "ro"]) == [text for text in texts if text in kept_texts(["zh"])] != []


@pytest.mark.parametrize("strength", [0.0, 0.25, 1.0])
def test_weights_are_moved_part_of_the_way(strength: float) -> None:
    model, other = tiny_sentence_encoder(seed=0), tiny_sentence_encoder(seed=1)
    before, after = deepcopy(model.state_dict()), other.state_dict()
    move_weights(model, before, after, strength)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, (1 - strength) * before[name] + strength * after[name])


def test_words_alone_are_unfrozen_with_a_bottleneck_and_without() -> None:
    for width in (4, None):
        model = tiny_sentence_encoder(bottleneck_size=width) if width else tiny_sentence_encoder()
        freeze(model, "words")
        trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        assert len(trained) == 1
        assert "word_embeddings" in trained[0]
        freeze(model, "all")
        assert all(parameter.requires_grad for parameter in model.parameters())
