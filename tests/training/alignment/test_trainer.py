from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.alignment.vectors import made_split
from training.alignment.head import SiameseHead
from training.alignment.trainer import Epoch, Inputs, Pairs, Settings, batch_loss, dev_score, prepare, train_head
from training.errors import DivergedError

QUICK = Settings(learning_rate=1e-2, epochs=15, dropout=0.0)


def test_trained_head_finds_more_translations_than_identity() -> None:
    train, dev = made_split()
    head = train_head(train, dev, QUICK)
    assert head.best.p1 > head.epochs[0].p1 + 10
    losses = [epoch.loss for epoch in head.epochs if epoch.loss is not None]
    assert losses[-1] < 0.8 * losses[0]


def test_the_kept_epoch_is_the_first_of_the_best_on_dev() -> None:
    train, dev = made_split()
    seen: list[Epoch] = []
    head = train_head(train, dev, QUICK, seen.append)
    assert [epoch.number for epoch in seen] == list(range(1, 16))
    assert tuple(seen) == head.epochs[1:]
    best = max(epoch.p1 for epoch in head.epochs)
    assert head.best == next(epoch for epoch in head.epochs if epoch.p1 == best)
    prepared_train, prepared_dev, _ = prepare(train, dev, QUICK.inputs)
    assert dev_score(head.layers, prepared_train, prepared_dev) == pytest.approx(head.best.p1)


def test_same_seed_gives_same_head_and_keeps_torchs_state() -> None:
    train, dev = made_split()
    settings = replace(QUICK, epochs=2, dropout=0.2, start="random")
    torch.manual_seed(7)
    first = train_head(train, dev, settings)
    left = torch.rand(1)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(1), left)
    torch.manual_seed(8)
    again = train_head(train, dev, settings)
    np.testing.assert_array_equal(first.layers[0].weight_DD, again.layers[0].weight_DD)
    other = train_head(train, dev, replace(settings, seed=1))
    assert not np.array_equal(first.layers[0].weight_DD, other.layers[0].weight_DD)


def slope(train: Pairs, dev: Pairs, settings: Settings) -> np.ndarray:
    """Of the loss of one batch, summed over its pairs, at the identity."""
    prepared, _, _ = prepare(train, dev, settings.inputs)
    columns = (prepared.source_ND, prepared.target_ND, prepared.source_N, prepared.target_N)
    head = SiameseHead(16, dropout=0.0)
    generator = torch.Generator().manual_seed(0)
    loss = batch_loss(head, tuple(map(torch.from_numpy, columns)), settings, generator)
    pairs = len(train) * (1 if settings.negatives == "none" else 2)
    (loss * pairs).backward()
    return np.asarray(head[0].weight.grad)


def test_margin_of_one_disables_negatives_of_raw_vectors() -> None:
    train, dev = made_split(length=3)
    assert np.linalg.norm(train.source_ND - np.roll(train.target_ND, 1, axis=0), axis=1).min() > 3

    def pull(inputs: Inputs, margin: float = 1.0) -> float:
        """Of the negatives, beside that of the positives."""
        settings = Settings(inputs=inputs, margin=margin, negatives="random")
        alone = slope(train, dev, replace(settings, negatives="none"))
        return float(np.abs(slope(train, dev, settings) - alone).max() / np.abs(alone).max())

    assert pull("raw") < 1e-5
    for inputs, margin in (("unit", 1.0), ("scaled", 1.0), ("raw", 20.0)):
        assert pull(inputs, margin) > 1e-3, inputs


def test_the_papers_rate_cannot_move_a_random_start() -> None:
    train, dev = made_split()
    settings = Settings(learning_rate=5e-6, epochs=20, dropout=0.0)
    steps = settings.epochs * -(-len(train) // settings.batch)
    random, identity = (train_head(train, dev, replace(settings, start=start)) for start in ("random", "identity"))
    start = train_head(train, dev, replace(settings, start="random", epochs=0)).layers[0].weight_DD
    moved = np.abs(random.layers[0].weight_DD - start).max()
    assert moved <= steps * settings.learning_rate * 1.01  # of weights of some 0.14
    assert identity.best.p1 > random.best.p1


def test_unit_inputs_and_scaled_ones_are_part_of_the_head() -> None:
    train, dev = made_split(length=3)
    for inputs in ("unit", "scaled", "raw"):
        head = train_head(train, dev, replace(QUICK, inputs=inputs, epochs=0))
        prepared, _, _ = prepare(train, dev, inputs)
        np.testing.assert_allclose(head(train.source_ND), prepared.source_ND, rtol=1e-5, atol=1e-6)


def test_a_loss_that_is_no_number_stops_with_the_rate() -> None:
    train, dev = made_split()
    with pytest.raises(DivergedError, match=r"the learning rate 1e\+30 is too high"):
        train_head(train, dev, replace(QUICK, learning_rate=1e30, epochs=3))
