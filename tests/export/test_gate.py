import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from export.checkpoint import read_checkpoint
from export.encoder import OnnxEncoder
from export.errors import Refused
from export.gate import Fidelity, GateLimits, Int8Loss, check_fidelity, check_loss, measure_fidelity, measure_loss
from tests.export.checkpoints import STS_PAIRS


def loss(**changes: float | None) -> Int8Loss:
    """One that passes, but for `changes`."""
    passing: dict[str, float | None] = {
        "texts": 8,
        "mean_cosine_to_fp32": 0.995,
        "min_cosine_to_fp32": 0.98,
        "sts_pairs": 4,
        "sts_fp32": 80.0,
        "sts_int8": 79.6,
    }
    return Int8Loss(**passing | changes)  # type: ignore[arg-type]


def test_a_small_loss_passes() -> None:
    check_loss(loss(), GateLimits())


def test_a_gain_passes() -> None:
    check_loss(loss(sts_int8=83.0), GateLimits())


def test_a_low_cosine_is_refused_with_both_numbers_and_the_option() -> None:
    with pytest.raises(
        Refused, match=r"mean cosine to fp32 is 0.9893 over 8 texts, the limit is 0.99 \(--min-cosine\)$"
    ):
        check_loss(loss(mean_cosine_to_fp32=0.9893), GateLimits())


def test_a_fall_of_sts_is_refused_with_the_figures() -> None:
    with pytest.raises(Refused, match=r"STS falls by 0.60 points from 80.00 to 79.40 over 4 pairs, the limit is 0.5"):
        check_loss(loss(sts_int8=79.4), GateLimits())


def test_both_faults_are_named() -> None:
    with pytest.raises(Refused, match=r"mean cosine.*; STS falls"):
        check_loss(loss(mean_cosine_to_fp32=0.5, sts_int8=10.0), GateLimits())


def test_without_pairs_the_cosine_decides() -> None:
    check_loss(loss(sts_pairs=0, sts_fp32=None, sts_int8=None), GateLimits())


@pytest.mark.parametrize("field", ["mean_cosine_to_fp32", "sts_int8"])
def test_nan_never_passes(field: str) -> None:
    with pytest.raises(Refused, match="nan"):
        check_loss(loss(**{field: math.nan}), GateLimits())


def test_fp32_must_be_torch() -> None:
    check_fidelity(Fidelity(parity_texts=3, min_cosine_to_torch=0.999995), GateLimits())
    for cosine in (0.99998, math.nan):
        with pytest.raises(Refused, match=r"the lowest cosine to torch is .* over 3 texts, the limit is 0.99999"):
            check_fidelity(Fidelity(parity_texts=3, min_cosine_to_torch=cosine), GateLimits())


def test_fidelity_is_that_of_the_worst_text() -> None:
    torch_vectors = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    fp32_vectors = np.array([[1.0, 0.0], [0.6, 0.8]], dtype=np.float32)
    assert measure_fidelity(torch_vectors, fp32_vectors) == Fidelity(2, pytest.approx(0.8))


def test_sts_is_spearman_of_the_reference_cosines(student: Path, student_artifact: Path) -> None:
    tokenizer = read_checkpoint(student).tokenizer
    encoder = OnnxEncoder(student_artifact / "model.onnx", tokenizer, max_length=32)
    measured = measure_loss(encoder, encoder, ["Bees"], STS_PAIRS)
    model = SentenceTransformer(str(student), device="cpu")
    scores, left, right = zip(*STS_PAIRS, strict=True)
    cosine = model.similarity_pairwise(model.encode(left), model.encode(right))
    assert measured.sts_fp32 == pytest.approx(100 * spearmanr(scores, cosine).statistic)
    assert measured.sts_int8 == measured.sts_fp32
    assert (measured.texts, measured.sts_pairs) == (11, 5)
    assert measured.mean_cosine_to_fp32 == pytest.approx(1.0)
