"""The stages as they are composed, against the paper's equations written out: one text at a time, sum by sum."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.training.tiny import tiny_corpus, tiny_sentence_encoder
from training.config.run import ContrastiveConfig, StageConfig, StudentStageConfig
from training.losses import cosine_matrix
from training.models.sentence_encoder import SentenceEncoder
from training.stages.objectives import assistant_objective, contrastive_objective, student_objective
from training.stages.pairs import PairEncoder, TeacherLabels, drawn_rows

CORPUS, TOKENS = tiny_corpus(12)
CORPUS.english[5] = CORPUS.english[3]  # two pairs of one English sentence, as in a corpus of many languages
PAIRS = PairEncoder(CORPUS, TOKENS, max_length=16, device=torch.device("cpu"))
VECTORS = np.random.default_rng(0).standard_normal((12, 16)).astype(np.float32)
TEACHER = TeacherLabels(VECTORS, np.arange(24))
BATCH = np.array([3, 8, 5, 0, 11, 2])
N, D, TAU = len(BATCH), 16, 0.05


def embedding(model: SentenceEncoder, text: int) -> Tensor:
    """h_X of one text, alone: transformers' own forward pass, the mean over its tokens, unit length."""
    ids = torch.from_numpy(TOKENS.ids[TOKENS.offsets[text] : TOKENS.offsets[text + 1]]).long()[None]
    hidden = model.encoder.body(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
    mean = hidden.sum(dim=0) / len(hidden)
    return mean / mean.square().sum().sqrt()


def both_sides(model: SentenceEncoder) -> tuple[list[Tensor], list[Tensor]]:
    """h_X(s_i) and h_X(t_i) of the batch."""
    return tuple([embedding(model, int(side[pair])) for pair in BATCH] for side in (CORPUS.english, CORPUS.other))


def taught() -> list[Tensor]:
    """h_T(s_i) of the batch."""
    return [torch.from_numpy(VECTORS[CORPUS.english[pair]]) for pair in BATCH]


def cosine(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum() / (left.square().sum().sqrt() * right.square().sum().sqrt())


def distillation(targets: list[Tensor], embeddings: list[Tensor], divisor: int) -> Tensor:
    """1/N sum_i ||target_i - embedding_i||^2, over D where squared errors are means."""
    return sum(((a - b) ** 2).sum() for a, b in zip(targets, embeddings, strict=True)) / (N * divisor)


def contrast(objective: str, teacher: list[Tensor], sources: list[Tensor], targets: list[Tensor]) -> Tensor:
    """Eqs. (5), (8) and (9), cell by cell."""
    total = torch.zeros(())
    for i in range(N):
        scores = [cosine(sources[i], targets[j]) for j in range(N)]
        log_sum = torch.stack([score / TAU for score in scores]).exp().sum().log()
        for j in range(N):
            label = cosine(teacher[i], teacher[j])
            equal = float(CORPUS.english[BATCH[i]] == CORPUS.english[BATCH[j]])
            total = (
                total
                + {
                    "soft": (label - scores[j]) ** 2 / N**2,
                    "bool": (float(i == j) - scores[j]) ** 2 / N**2,
                    "bool_equal": (equal - scores[j]) ** 2 / N**2,
                    "ce_sum": -label * (scores[j] / TAU - log_sum),
                    "ce": -label * (scores[j] / TAU - log_sum) / N,
                    "ce_hard": -float(i == j) * (scores[j] / TAU - log_sum) / N,
                }[objective]
            )
    return total


def assert_same_loss_and_gradients(model: SentenceEncoder, given: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)
    parameters = list(model.parameters())
    for own, plain in zip(
        torch.autograd.grad(given, parameters, allow_unused=True),
        torch.autograd.grad(expected, parameters, allow_unused=True),
        strict=True,
    ):
        assert (own is None) == (plain is None)
        if own is not None:
            torch.testing.assert_close(own, plain, rtol=1e-3, atol=1e-4 * max(1.0, plain.abs().max().item()))


@pytest.mark.parametrize(("reduction", "divisor"), [("sum", 1), ("mean", D)])
def test_stage_one_is_eq_2(reduction: str, divisor: int) -> None:
    assistant = tiny_sentence_encoder()
    given = assistant_objective(assistant, TEACHER, PAIRS, StageConfig(reduction=reduction)).losses(BATCH)
    sources, targets = both_sides(assistant)
    expected = distillation(taught(), sources, divisor) + distillation(taught(), targets, divisor)
    assert_same_loss_and_gradients(assistant, sum(given.values()), expected)


@pytest.mark.parametrize(("reduction", "divisor"), [("sum", 1), ("mean", D)])
def test_stage_three_is_eq_4(reduction: str, divisor: int) -> None:
    assistant, student = tiny_sentence_encoder(), tiny_sentence_encoder(seed=1, layers=1, recurrences=2)
    config = StudentStageConfig(reduction=reduction)
    given = student_objective(assistant.requires_grad_(False), student, PAIRS, config).losses(BATCH)
    (labels_s, labels_t), (sources, targets) = both_sides(assistant), both_sides(student)
    expected = distillation(labels_s, sources, divisor) + distillation(labels_t, targets, divisor)
    assert_same_loss_and_gradients(student, sum(given.values()), expected)


@pytest.mark.parametrize(("reduction", "divisor"), [("sum", 1), ("mean", D)])
@pytest.mark.parametrize("objective", ["soft", "bool", "bool_equal", "ce", "ce_sum", "ce_hard", "none"])
def test_stage_four_is_eq_7(objective: str, reduction: str, divisor: int) -> None:
    student = tiny_sentence_encoder(seed=1, layers=1, recurrences=2, bottleneck_size=4)
    config = ContrastiveConfig(objective=objective, reduction=reduction, mcl_weight=0.5, temperature=TAU)
    given = contrastive_objective(student, TEACHER, PAIRS, config).losses(BATCH)
    sources, targets = both_sides(student)
    expected = distillation(taught(), sources, divisor) + distillation(taught(), targets, divisor)
    if objective == "none":  # logged alone
        expected = expected + 0.5 * contrast("soft", taught(), sources, targets).detach()
    else:
        expected = expected + 0.5 * contrast(objective, taught(), sources, targets)
    assert_same_loss_and_gradients(student, sum(given.values()), expected)


BATCH_OF_8 = np.arange(8)


@pytest.fixture
def parts():
    corpus, tokens = tiny_corpus(40)
    pairs = PairEncoder(corpus, tokens, max_length=16, device=torch.device("cpu"))
    vectors = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)
    return tiny_sentence_encoder().eval(), TeacherLabels(vectors, np.arange(40)), pairs


def test_a_share_samples_english_sides_and_keeps_all_targets(parts) -> None:
    model, teacher, pairs = parts
    whole = assistant_objective(model, teacher, pairs)
    part = assistant_objective(model, teacher, pairs, StageConfig(source_share=0.25))
    generator = np.random.default_rng(1)
    batches = [generator.permutation(40)[:8] for _ in range(200)]
    torch.testing.assert_close(part.losses(BATCH_OF_8)["target"], whole.losses(BATCH_OF_8)["target"])
    with torch.no_grad():
        mean = np.mean([part.losses(batch)["source"].item() for batch in batches])
        expected = np.mean([whole.losses(batch)["source"].item() for batch in batches])
    assert mean == pytest.approx(expected, rel=0.1)


def test_the_same_batch_teaches_the_same_english_sides(parts) -> None:
    model, teacher, pairs = parts
    objective = assistant_objective(model, teacher, pairs, StageConfig(source_share=0.25))
    assert objective.losses(BATCH_OF_8)["source"].item() == objective.losses(BATCH_OF_8)["source"].item()


@pytest.mark.parametrize("objective", ["soft", "bool", "bool_equal", "ce", "ce_sum", "ce_hard"])
def test_contrastive_loss_of_a_share_has_sampled_rows(parts, objective: str) -> None:
    model, teacher, pairs = parts
    part = ContrastiveConfig(pairs=2, objective=objective, source_share=0.5)
    taught_S = drawn_rows(BATCH_OF_8, 0.5)
    assert sorted(taught_S.tolist()) != sorted(drawn_rows(BATCH_OF_8 + 8, 0.5).tolist())
    source_BD, target_BD = pairs.encode(model, BATCH_OF_8)
    label_BB = cosine_matrix(pairs.labels(teacher, BATCH_OF_8), pairs.labels(teacher, BATCH_OF_8))[taught_S]
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
    given = contrastive_objective(model, teacher, pairs, part).losses(BATCH_OF_8)["contrastive"]
    torch.testing.assert_close(given, expected[objective])
