import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.linear_model import Ridge

from tests.training.alignment.vectors import made_pairs
from training.alignment.candidates import midpoint_ridge, procrustes, ridge, whitening

SOURCE, TARGET = made_pairs(200)


def test_procrustes_is_scipys_rotation() -> None:
    rotation, _ = orthogonal_procrustes(SOURCE, TARGET)
    layer = procrustes(SOURCE, TARGET)
    np.testing.assert_allclose(layer(SOURCE), SOURCE @ rotation, atol=1e-4)
    np.testing.assert_allclose(layer.weight_DD @ layer.weight_DD.T, np.eye(16), atol=1e-5)


def test_ridge_is_scikit_learns() -> None:
    centred = SOURCE - SOURCE.mean(axis=0)
    penalty = 0.1 * (centred**2).sum() / SOURCE.shape[1]
    expected = Ridge(alpha=penalty).fit(SOURCE.astype(np.float64), TARGET).predict(SOURCE)
    np.testing.assert_allclose(ridge(SOURCE, TARGET, penalty=0.1)(SOURCE), expected, atol=1e-3)


def test_the_midpoint_ridge_is_scikit_learns_over_what_both_sides_lack() -> None:
    both, half = np.concatenate([SOURCE, TARGET]), (TARGET - SOURCE) / 2
    penalty = 0.1 * ((both - both.mean(axis=0)) ** 2).sum() / SOURCE.shape[1]
    shift = Ridge(alpha=penalty).fit(both.astype(np.float64), np.concatenate([half, -half])).predict(both)
    np.testing.assert_allclose(midpoint_ridge(SOURCE, TARGET, penalty=0.1)(both), both + shift, atol=1e-3)
    np.testing.assert_allclose(midpoint_ridge(SOURCE, TARGET, penalty=1e6)(both), both, atol=1e-3)


def test_whitening_makes_translations_differ_alike_in_every_direction() -> None:
    layer = whitening(SOURCE, TARGET, shrinkage=0)
    difference = layer(SOURCE) - layer(TARGET)
    covariance = difference.T @ difference
    np.testing.assert_allclose(covariance / covariance[0, 0], np.eye(16), atol=1e-3)
    np.testing.assert_allclose(layer.weight_DD, layer.weight_DD.T, atol=1e-5)
    much = whitening(SOURCE, TARGET, shrinkage=1e6).weight_DD
    np.testing.assert_allclose(much / much[0, 0], np.eye(16), atol=1e-4)
