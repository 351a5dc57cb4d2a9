import numpy as np
import pytest
import torch

from tests.training.tiny import tiny_corpus, tiny_sentence_encoder
from training.config.run import PassagesConfig
from training.errors import ConfigError
from training.passages.questions import Questions
from training.passages.teaching import (
    Kept,
    Taught,
    encode_texts,
    passages_objective,
    plan_questions,
)

CPU = torch.device("cpu")


def log_softmax(score: np.ndarray) -> np.ndarray:
    return score - np.log(np.exp(score).sum(axis=1, keepdims=True))


def questions_of(count: int, texts: int) -> Questions:
    """Question i is text i; its answer is text `count` + i."""
    number = np.arange(count)
    return Questions([""] * texts, ["en"], number, count + number, np.zeros(count, int), np.zeros(count, bool), {})


def test_losses_are_those_of_numpy() -> None:
    _, tokens = tiny_corpus()
    model, questions, generator = tiny_sentence_encoder(), questions_of(4, 80), np.random.default_rng(0)
    vector_ND = generator.normal(size=(80, 8)).astype(np.float32)
    vector_ND /= np.linalg.norm(vector_ND, axis=1, keepdims=True)
    hard_QC = np.tile(np.arange(8, 11), (4, 1))
    config = PassagesConfig(kept=5, kept_texts=5, negatives=1, sets={})
    kept = Kept(np.arange(40, 45), 3 * torch.randn(5, 16))  # of a model whose vectors have other norms than 1
    objective = passages_objective(model, questions, Taught(vector_ND, hard_QC), kept, (tokens, tokens), config, CPU)
    batch_B = np.arange(4)
    losses = {name: value.item() for name, value in objective.losses(batch_B).items()}

    own_ND = encode_texts(model, tokens, np.arange(80), config.max_length, CPU).detach().numpy()
    drawn = np.random.default_rng(batch_B).integers(1, 3, (4, 1)).ravel()
    pool = np.unique([*range(4, 8), *(8 + drawn)])
    said = vector_ND[:4] @ vector_ND[pool].T
    score = log_softmax(own_ND[:4] @ own_ND[pool].T / config.temperature)
    teacher = log_softmax(said / config.teacher_temperature)
    assert losses["teacher"] == pytest.approx((np.exp(teacher) * (teacher - score)).sum() / 4, rel=1e-3)
    masked = own_ND[:4] @ own_ND[pool].T / config.temperature
    is_false = said > said[np.arange(4), np.arange(4)][:, None] - 0.003
    is_false[np.arange(4), np.arange(4)] = False
    right = log_softmax(np.where(is_false, -1e4, masked))[np.arange(4), np.arange(4)]
    assert losses["answers"] == pytest.approx(-config.answer_weight * right.mean(), rel=1e-3)
    apart = 1 - (own_ND[40:45] * torch.nn.functional.normalize(kept.vector_KD).numpy()).sum(axis=1)
    assert losses["kept"] == pytest.approx(config.kept_weight * apart.mean(), rel=1e-3)


def test_vectors_and_gradients_do_not_depend_on_groups() -> None:
    _, tokens = tiny_corpus()
    model, texts = tiny_sentence_encoder(), np.array([7, 3, 3, 50])
    encode_texts(model, tokens, texts, 32, CPU).sum(dim=1).pow(2).sum().backward()
    in_groups = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    alone = torch.cat([model(*tokens.batch(np.array([text]), max_length=32)) for text in texts])
    alone.sum(dim=1).pow(2).sum().backward()
    again = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(in_groups, again, strict=True))


@pytest.mark.parametrize(("exponent", "turns"), [(0.0, [10, 10]), (1.0, [4, 16])])
def test_languages_take_turns_by_their_size(exponent: float, turns: list[int]) -> None:
    rows = {"de": np.arange(20), "en": np.arange(20, 100), "pl": np.arange(100, 103)}
    batches = plan_questions(rows, 4, 80, exponent=exponent, seed=1).pairs.reshape(-1, 4)
    assert [sum(batch[0] in rows[name] for batch in batches) for name in ("de", "en")] == turns
    assert all(set(batch) <= set(rows["de"]) or set(batch) <= set(rows["en"]) for batch in batches)


def test_all_questions_come_before_one_comes_again() -> None:
    plan = plan_questions({"de": np.arange(20)}, 5, 40, exponent=0.0, seed=1).pairs
    assert sorted(plan[:20]) == sorted(plan[20:]) == list(range(20))
    assert plan[:20].tolist() != plan[20:].tolist()


def test_too_few_questions_for_a_batch_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"passages.batch_size is 8; no language has as many"):
        plan_questions({"de": np.arange(7)}, 8, 80, exponent=0.0, seed=1)
