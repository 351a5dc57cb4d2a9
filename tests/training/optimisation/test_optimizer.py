import copy

import pytest
import torch
from torch import nn

from tests.training.tiny import tiny_encoder
from training.config.run import StageConfig
from training.optimisation.optimizer import Stepper, clip_gradients, use_sparse_gradients


class Words(nn.Module):
    """A word table as the encoders name theirs, and something dense."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.word_embeddings = nn.Embedding(10, 4)
        self.body = nn.Linear(4, 4)

    def loss(self, ids: list[int]) -> torch.Tensor:
        return self.body(self.word_embeddings(torch.tensor(ids))).square().sum()


def config(**changes: object) -> StageConfig:
    return StageConfig(pairs=2, learning_rate=1e-2, **changes)  # type: ignore[arg-type]


def train_both(batches: list[list[int]]) -> tuple[Words, Words]:
    """The same steps with dense and with sparse gradients."""
    dense, sparse = Words(), Words()
    for model, is_sparse in ((dense, False), (sparse, True)):
        stepper = Stepper(model, config(sparse_embeddings=is_sparse, weight_decay=0.1))
        for ids in batches:
            model.loss(ids).backward()
            clip_gradients(stepper.parameters)
            stepper.step(1.0)
    return dense, sparse


def test_sparse_steps_are_dense_ones_where_every_row_is_used() -> None:
    dense, sparse = train_both([list(range(10)), [*range(10), 3, 3], list(range(10))])
    for expected, actual in zip(dense.parameters(), sparse.parameters(), strict=True):
        torch.testing.assert_close(actual, expected)


def test_a_row_without_gradients_does_not_change() -> None:
    before = Words().word_embeddings.weight
    dense, sparse = train_both([[0, 1], [1, 2]])
    assert torch.equal(sparse.word_embeddings.weight[3:], before[3:])
    assert not torch.equal(dense.word_embeddings.weight[3:], before[3:])  # weight decay moves them all
    assert (sparse.word_embeddings.weight[:3] != before[:3]).all()


@pytest.mark.parametrize(("decay_biases", "bias"), [(False, 1.0), (True, 0.99)])
def test_weight_decay_spares_biases_and_norms(decay_biases: bool, bias: float) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    Stepper(model, config(weight_decay=1.0, decay_biases=decay_biases)).step(1.0)
    assert model[0].weight[0, 0].item() == pytest.approx(0.99)
    for spared in (model[0].bias, model[1].weight, model[1].bias):
        assert spared[0].item() == pytest.approx(bias)


@pytest.mark.parametrize(("changes", "betas"), [({}, (0.9, 0.98)), ({"betas": [0.8, 0.999]}, (0.8, 0.999))])
def test_sparse_steps_are_torchs_sparse_adam_of_the_same_betas(changes: dict, betas: tuple[float, float]) -> None:
    model = Words()
    stepper = Stepper(model, config(sparse_embeddings=True, **changes))
    assert [group["betas"] for group in stepper.optimizers[0].param_groups] == [betas]
    reference, table = Words().word_embeddings, model.word_embeddings
    reference.sparse = True
    theirs = torch.optim.SparseAdam(reference.parameters(), lr=1e-2, betas=betas)
    for ids in ([0, 1, 1], [1, 5], [0]):
        model.word_embeddings(torch.tensor(ids)).pow(3).sum().backward()
        stepper.step(1.0)
        reference(torch.tensor(ids)).pow(3).sum().backward()
        theirs.step()
        theirs.zero_grad()
    torch.testing.assert_close(table.weight, reference.weight)


def test_clipping_counts_sparse_and_dense_gradients_together() -> None:
    dense, sparse = Words(), Words()
    sparse.word_embeddings.sparse = True
    for model in (dense, sparse):
        model.loss([1, 2, 2, 7]).mul(100.0).backward()
    expected = nn.utils.clip_grad_norm_(dense.parameters(), 1.0)  # torch's own, which takes no sparse ones
    assert clip_gradients(sparse.parameters()).item() == pytest.approx(expected.item())
    torch.testing.assert_close(sparse.word_embeddings.weight.grad.to_dense(), dense.word_embeddings.weight.grad)
    torch.testing.assert_close(sparse.body.weight.grad, dense.body.weight.grad)
    before = copy.deepcopy(dense.body.weight.grad.mul_(1e-3))  # a small one stays
    clip_gradients([dense.body.weight])
    assert torch.equal(dense.body.weight.grad, before)


@pytest.mark.parametrize("bottleneck_size", [None, 4])
def test_the_table_is_found_with_a_bottleneck_and_without(bottleneck_size: int | None) -> None:
    encoder = tiny_encoder(bottleneck_size=bottleneck_size)
    (table,) = use_sparse_gradients(encoder, True)
    encoder.embed_tokens(torch.tensor([[5, 6]])).sum().backward()
    assert table.shape == (60, bottleneck_size or 16)
    assert table.grad.is_sparse
    assert use_sparse_gradients(encoder, None) == set()  # a small table
    encoder.zero_grad()
    encoder.embed_tokens(torch.tensor([[5, 6]])).sum().backward()
    assert not table.grad.is_sparse


@pytest.mark.parametrize(("rate", "is_sparse"), [(1e-3, False), (1e-3, True), (0.0, None)])
def test_word_embeddings_have_a_learning_rate_of_their_own(rate: float, is_sparse: bool | None) -> None:
    stepper = Stepper(Words(), config(embedding_learning_rate=rate, sparse_embeddings=is_sparse))
    stepper.step(0.5)
    assert sorted(stepper.learning_rates()) == pytest.approx([rate / 2, 5e-3])


def test_state_goes_from_one_stepper_to_another() -> None:
    models = Words(), Words()
    settings = config(sparse_embeddings=True)
    steppers = [Stepper(model, settings) for model in models]
    models[0].loss([1, 2]).backward()
    steppers[0].step(1.0)
    models[1].load_state_dict(models[0].state_dict())
    steppers[1].load_state_dict(copy.deepcopy(steppers[0].state_dict()))
    for model, stepper in zip(models, steppers, strict=True):
        model.loss([2, 3]).backward()
        stepper.step(1.0)
    for expected, actual in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(actual, expected)
