"""Stages 1 and 4 with part of the English sides."""

import numpy as np
import pytest
import torch

from tests.training.tiny import tiny_corpus, tiny_sentence_encoder
from training.config.run import ContrastiveConfig, StageConfig
from training.losses import cosine_matrix, embedding_mse
from training.stages.objectives import assistant_objective, contrastive_objective
from training.stages.pairs import PairEncoder, TeacherLabels, drawn_rows

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
        losses = assistant_objective(model, teacher, pairs, StageConfig(source_share=share)).losses(BATCH)
        torch.testing.assert_close(losses["source"], embedding_mse(source_BD, label_BD))
        torch.testing.assert_close(losses["target"], embedding_mse(target_BD, label_BD))


def test_a_share_samples_english_sides_and_keeps_all_targets(parts) -> None:
    model, teacher, pairs = parts
    whole = assistant_objective(model, teacher, pairs)
    part = assistant_objective(model, teacher, pairs, StageConfig(source_share=0.25))
    generator = np.random.default_rng(1)
    batches = [generator.permutation(40)[:8] for _ in range(200)]
    torch.testing.assert_close(part.losses(BATCH)["target"], whole.losses(BATCH)["target"])
    with torch.no_grad():
        mean = np.mean([part.losses(batch)["source"].item() for batch in batches])
        expected = np.mean([whole.losses(batch)["source"].item() for batch in batches])
    assert mean == pytest.approx(expected, rel=0.1)


def test_the_same_batch_teaches_the_same_english_sides(parts) -> None:
    model, teacher, pairs = parts
    objective = assistant_objective(model, teacher, pairs, StageConfig(source_share=0.25))
    assert objective.losses(BATCH)["source"].item() == objective.losses(BATCH)["source"].item()


@pytest.mark.parametrize("objective", ["soft", "bool", "bool_equal", "ce", "ce_sum", "ce_hard"])
def test_contrastive_loss_of_a_share_has_sampled_rows(parts, objective: str) -> None:
    model, teacher, pairs = parts
    part = ContrastiveConfig(pairs=2, objective=objective, source_share=0.5)
    taught_S = drawn_rows(BATCH, 0.5)
    assert sorted(taught_S.tolist()) != sorted(drawn_rows(BATCH + 8, 0.5).tolist())
    source_BD, target_BD = pairs.encode(model, BATCH)
    label_BB = cosine_matrix(pairs.labels(teacher, BATCH), pairs.labels(teacher, BATCH))[taught_S]
    score_BB = cosine_matrix(source_BD, target_BD)[taught_S]
    log_BB = torch.log_softmax(score_BB / part.temperature, dim=1)
    expected = {
        "soft": (label_BB - score_BB).square().mean(),
        "bool": (torch.eye(8)[taught_S] - score_BB).square().mean(),
        "bool_equal": (torch.eye(8)[taught_S] - score_BB).square().mean(),  # no sentence occurs twice
        "ce": -(label_BB * log_BB).sum(dim=1).mean(),
        "ce_sum": -8 * (label_BB * log_BB).sum(dim=1).mean(),  # half of the anchors stand for all
        "ce_hard": -log_BB[torch.arange(4), taught_S].mean(),
    }
    given = contrastive_objective(model, teacher, pairs, part).losses(BATCH)["contrastive"]
    torch.testing.assert_close(given, expected[objective])
