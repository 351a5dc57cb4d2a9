"""Maps that need no training: what a head is compared with. Pure: arrays in, arrays out.

Shapes: N pairs, D dims.
"""

from __future__ import annotations

import numpy as np

from training.alignment.layers import Layer, Vectors
from training.models.labels import linear_fit

RIDGE = 0.001  # in mean squares of an input


def procrustes(source_ND: Vectors, target_ND: Vectors) -> Layer:
    """The rotation of the source side that brings it nearest to the target side (Schönemann 1966).

    One side alone goes through it, so a model that does not know a text's language cannot serve it.
    """
    left_DD, _, right_DD = np.linalg.svd(target_ND.T.astype(np.float64) @ source_ND.astype(np.float64))
    return Layer((left_DD @ right_DD).astype(np.float32), np.zeros(source_ND.shape[1], np.float32))


def ridge(source_ND: Vectors, target_ND: Vectors, *, penalty: float = RIDGE) -> Layer:
    """The affine map of the source side to the target side by ridge regression; like `procrustes`, for one side."""
    return Layer(*linear_fit(source_ND, target_ND, ridge=penalty))


def midpoint_ridge(source_ND: Vectors, target_ND: Vectors, *, penalty: float = RIDGE) -> Layer:
    """The affine map that takes both sides to the middle of their pair, by ridge regression towards the identity.

    Both sides go through it, as through a siamese head: it can be served. Where the pairs say little, and all the more
    the higher the penalty, it leaves vectors where they are.
    """
    half_ND = (target_ND - source_ND) / 2
    both = np.concatenate([source_ND, target_ND])
    weight_DD, bias_D = linear_fit(both, np.concatenate([half_ND, -half_ND]), ridge=penalty)
    return Layer(weight_DD + np.eye(len(weight_DD), dtype=np.float32), bias_D)


def whitening(source_ND: Vectors, target_ND: Vectors, *, shrinkage: float) -> Layer:
    """Makes the directions in which translations differ shorter (relevant component analysis, Bar-Hillel et al. 2003).

    Both sides go through (S + shrinkage I)^(-1/2), S the covariance of the differences, its mean variance 1. It can be
    served. The higher the shrinkage, the less vectors change but for their length.
    """
    difference_ND = (source_ND - target_ND).astype(np.float64)
    covariance_DD = difference_ND.T @ difference_ND
    covariance_DD *= len(covariance_DD) / np.trace(covariance_DD)
    variance_D, axes_DD = np.linalg.eigh(covariance_DD + shrinkage * np.eye(len(covariance_DD)))
    weight_DD = (axes_DD * variance_D**-0.5) @ axes_DD.T
    return Layer(weight_DD.astype(np.float32), np.zeros(len(weight_DD), np.float32))
