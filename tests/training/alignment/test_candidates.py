import numpy as np
import pytest
from sklearn.linear_model import Ridge

from tests.training.alignment.vectors import made_pairs, made_split
from training.alignment.candidates import (
    PENALTIES,
    SHRINKAGES,
    STRENGTHS,
    choose,
    make_candidates,
    midpoint_ridge,
    procrustes,
    whitening,
)
from training.alignment.trainer import Settings
from training.evaluation.bitext import score_bitext

QUICK = Settings(learning_rate=1e-2, epochs=10)
SOURCE, TARGET = made_pairs(200)


def test_candidates_are_sorted_by_dev_and_have_unit_length() -> None:
    train, dev = made_split()
    found, _ = make_candidates(train, dev, QUICK, "best")
    assert len(found) == len(STRENGTHS) + len(PENALTIES) + len(SHRINKAGES)
    assert [one.dev_p1 for one in found] == sorted((one.dev_p1 for one in found), reverse=True)
    for one in found:
        served = one(dev.source_ND), one(dev.target_ND)
        np.testing.assert_allclose(np.linalg.norm(served[0], axis=1), 1, rtol=1e-5)
        assert score_bitext(*served)["p1"] == one.dev_p1
    before = score_bitext(dev.source_ND, dev.target_ND)["p1"]
    assert found[0].dev_p1 > before + 10
    assert {one.name.split(",")[0].split()[0] for one in found} == {"siamese", "midpoint", "whitening"}


def test_a_strength_is_a_part_of_the_way_from_the_identity() -> None:
    train, dev = made_split()
    by_name = {one.name: one.layers[0] for one in make_candidates(train, dev, QUICK, "siamese")[0]}
    whole, half = by_name["siamese, strength 1"], by_name["siamese, strength 0.5"]
    np.testing.assert_allclose(half.weight_DD, (np.eye(16) + whole.weight_DD) / 2, atol=1e-6)
    np.testing.assert_allclose(half.bias_D, whole.bias_D / 2, atol=1e-6)


def test_a_head_with_an_activation_has_no_weaker_form() -> None:
    train, dev = made_split()
    (one,), _ = make_candidates(train, dev, Settings(structure="tanh", epochs=1), "siamese")
    assert one.name == "siamese, strength 1"


@pytest.mark.parametrize(("harmless", "chosen"), [({"a", "b"}, "a"), ({"b"}, "b"), (set(), "a")])
def test_the_best_harmless_head_is_chosen_else_the_best(harmless: set[str], chosen: str) -> None:
    assert choose(["a", "b"], harmless.__contains__) == chosen


def test_procrustes_is_the_rotation_of_the_source() -> None:
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((16, 16)))[0].astype(np.float32)
    np.testing.assert_allclose(procrustes(SOURCE, SOURCE @ rotation)(SOURCE), SOURCE @ rotation, atol=1e-4)


def test_midpoint_ridge_is_scikit_learns_on_half_differences() -> None:
    both, half = np.concatenate([SOURCE, TARGET]), (TARGET - SOURCE) / 2
    penalty = 0.1 * ((both - both.mean(axis=0)) ** 2).sum() / SOURCE.shape[1]
    shift = Ridge(alpha=penalty).fit(both.astype(np.float64), np.concatenate([half, -half])).predict(both)
    np.testing.assert_allclose(midpoint_ridge(SOURCE, TARGET, penalty=0.1)(both), both + shift, atol=1e-3)
    np.testing.assert_allclose(midpoint_ridge(SOURCE, TARGET, penalty=1e6)(both), both, atol=1e-3)


def test_whitening_evens_out_how_translations_differ() -> None:
    layer = whitening(SOURCE, TARGET, shrinkage=0)
    difference = layer(SOURCE) - layer(TARGET)
    covariance = difference.T @ difference
    np.testing.assert_allclose(covariance / covariance[0, 0], np.eye(16), atol=1e-3)
    np.testing.assert_allclose(layer.weight_DD, layer.weight_DD.T, atol=1e-5)
    much = whitening(SOURCE, TARGET, shrinkage=1e6).weight_DD
    np.testing.assert_allclose(much / much[0, 0], np.eye(16), atol=1e-4)
