"""Stage 1 with part of the English sides."""

import numpy as np
import pytest
import torch

from tests.training.tiny import tiny_corpus, tiny_sentence_encoder
from training.losses import embedding_mse
from training.stages.assistant import assistant_objective
from training.stages.pairs import PairEncoder, TeacherLabels

BATCH = np.arange(8)


@pytest.fixture
def parts():
    corpus, tokens = tiny_corpus(40)
    pairs = PairEncoder(corpus, tokens, max_length=16, device=torch.device("cpu"))
    vectors = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)
    return tiny_sentence_encoder().eval(), TeacherLabels(vectors, np.arange(40)), pairs


def test_all_english_sides_give_the_papers_loss(parts) -> None:
    model, teacher, pairs = parts
    source_BD, target_BD = pairs.encode(model, BATCH)
    label_BD = pairs.labels(teacher, BATCH)
    for share in (None, 1.0):
        losses = assistant_objective(model, teacher, pairs, source_share=share).losses(BATCH)
        torch.testing.assert_close(losses["source"], embedding_mse(source_BD, label_BD))
        torch.testing.assert_close(losses["target"], embedding_mse(target_BD, label_BD))


def test_a_share_is_weighed_by_its_size_leaves_targets_whole_and_covers_all_in_time(parts) -> None:
    model, teacher, pairs = parts
    whole = assistant_objective(model, teacher, pairs)
    part = assistant_objective(model, teacher, pairs, source_share=0.25)
    generator = np.random.default_rng(1)
    batches = [generator.permutation(40)[:8] for _ in range(200)]
    torch.testing.assert_close(part.losses(BATCH)["target"], whole.losses(BATCH)["target"])
    with torch.no_grad():
        mean = np.mean([part.losses(batch)["source"].item() for batch in batches])
        expected = np.mean([whole.losses(batch)["source"].item() for batch in batches])
    assert mean == pytest.approx(0.25 * expected, rel=0.1)


def test_the_same_batch_teaches_the_same_english_sides(parts) -> None:
    model, teacher, pairs = parts
    objective = assistant_objective(model, teacher, pairs, source_share=0.25)
    assert objective.losses(BATCH)["source"].item() == objective.losses(BATCH)["source"].item()
