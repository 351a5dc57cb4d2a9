"""Decides whether a graph is good enough to be served. Knows vectors and limits, no files.

N texts, P pairs, D dims
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from export.encoder import OnnxEncoder
from export.errors import Refused
from export.parity import cosines

StsPair = tuple[float, str, str]  # score, sentence, sentence


@dataclass(frozen=True)
class GateLimits:
    """What is refused."""

    min_cosine: float = 0.99  # int8: mean cosine to fp32
    max_sts_drop: float = 0.5  # int8: points of Spearman x 100 below fp32
    min_cosine_to_torch: float = 0.99999  # fp32, each text: the same arithmetic in another order


@dataclass(frozen=True)
class Fidelity:
    """How close the fp32 graph comes to the checkpoint."""

    parity_texts: int
    min_cosine_to_torch: float


@dataclass(frozen=True)
class Int8Loss:
    """What int8 costs against the fp32 graph; the STS fields are None without STS pairs."""

    texts: int
    mean_cosine_to_fp32: float
    min_cosine_to_fp32: float
    sts_pairs: int
    sts_fp32: float | None
    sts_int8: float | None


def measure_fidelity(torch_ND: npt.NDArray[np.float32], fp32_ND: npt.NDArray[np.float32]) -> Fidelity:
    """Compare the checkpoint's vectors with the graph's."""
    return Fidelity(parity_texts=len(torch_ND), min_cosine_to_torch=float(cosines(torch_ND, fp32_ND).min()))


def measure_loss(fp32: OnnxEncoder, int8: OnnxEncoder, texts: Sequence[str], pairs: Sequence[StsPair]) -> Int8Loss:
    """Compare both graphs on `texts` and both sides of `pairs`, each distinct text once."""
    distinct = list(dict.fromkeys([*texts, *(text for _, *sides in pairs for text in sides)]))
    fp32_ND, int8_ND = fp32.embed(distinct), int8.embed(distinct)
    cosine_N = cosines(fp32_ND, int8_ND)
    row_of = {text: row for row, text in enumerate(distinct)}
    return Int8Loss(
        texts=len(distinct),
        mean_cosine_to_fp32=float(cosine_N.mean()),
        min_cosine_to_fp32=float(cosine_N.min()),
        sts_pairs=len(pairs),
        sts_fp32=_sts(fp32_ND, row_of, pairs),
        sts_int8=_sts(int8_ND, row_of, pairs),
    )


def check_fidelity(fidelity: Fidelity, limits: GateLimits) -> None:
    """Refuse a graph that does not compute what torch computes.

    Raises: Refused.
    """
    if not fidelity.min_cosine_to_torch >= limits.min_cosine_to_torch:  # `not >=`: NaN is refused too
        raise Refused(
            f"fp32 refused: the lowest cosine to torch is {fidelity.min_cosine_to_torch:.6f} over "
            f"{fidelity.parity_texts} texts, the limit is {limits.min_cosine_to_torch}"
        )


def check_loss(loss: Int8Loss, limits: GateLimits) -> None:
    """Refuse int8 weights that lost too much.

    Raises: Refused: names every figure over its limit, with the option that moves it.
    """
    faults = []
    if not loss.mean_cosine_to_fp32 >= limits.min_cosine:
        faults.append(
            f"mean cosine to fp32 is {loss.mean_cosine_to_fp32:.4f} over {loss.texts} texts, "
            f"the limit is {limits.min_cosine} (--min-cosine)"
        )
    if loss.sts_fp32 is not None and loss.sts_int8 is not None:
        drop = loss.sts_fp32 - loss.sts_int8
        if not drop <= limits.max_sts_drop:
            faults.append(
                f"STS falls by {drop:.2f} points from {loss.sts_fp32:.2f} to {loss.sts_int8:.2f} over "
                f"{loss.sts_pairs} pairs, the limit is {limits.max_sts_drop} (--max-sts-drop)"
            )
    if faults:
        raise Refused(f"int8 refused: {'; '.join(faults)}")


def _sts(embedding_ND: npt.NDArray[np.float32], row_of: dict[str, int], pairs: Sequence[StsPair]) -> float | None:
    """Spearman's rho x 100 between human score and cosine."""
    if not pairs:
        return None
    left_PD = embedding_ND[[row_of[left] for _, left, _ in pairs]]
    right_PD = embedding_ND[[row_of[right] for _, _, right in pairs]]
    return float(spearmanr([score for score, _, _ in pairs], cosines(left_PD, right_PD)).statistic) * 100
