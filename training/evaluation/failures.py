"""Lists a model's bitext errors: sentences whose nearest neighbour is not their translation.

Shapes: N aligned sentences, D dims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.evaluation.bitext import Bitext
from training.evaluation.vectors import Encode, cosine_chunks, each_text_once

LONGEST_SHOWN = 90  # characters


@dataclass(frozen=True)
class Failure:
    """A sentence, its translation, and the sentence that was nearer."""

    label: str
    text: str
    translation: str
    found: str
    cosine: float  # between text and translation
    found_cosine: float


def worst_failures(encode: Encode, found: Mapping[str, Bitext], count: int) -> list[Failure]:
    """The `count` worst errors of each set: those with the largest gap in cosine to the sentence found."""
    encode = each_text_once(encode)
    failures = []
    for label, bitext in found.items():
        left, right = bitext.read()
        failures += _worst(label, left, right, encode(left), encode(right), count)
    return failures


def _worst(
    label: str,
    left: list[str],
    right: list[str],
    left_ND: NDArray[np.float32],
    right_ND: NDArray[np.float32],
    count: int,
) -> list[Failure]:
    cosine_N, nearest_N = np.empty(len(left)), np.empty(len(left), dtype=np.int64)
    own_N = np.empty(len(left))
    for start, cosine_CN in cosine_chunks(left_ND, right_ND):
        chunk = np.arange(start, start + len(cosine_CN))
        nearest_N[chunk] = cosine_CN.argmax(axis=1)
        cosine_N[chunk] = cosine_CN.max(axis=1)
        own_N[chunk] = cosine_CN[chunk - start, chunk]
    worst = np.argsort(own_N - cosine_N, kind="stable")[:count]
    return [
        Failure(label, left[i], right[i], right[nearest_N[i]], float(own_N[i]), float(cosine_N[i]))
        for i in worst.tolist()
        if right[nearest_N[i]] != right[i]
    ]


def failures_markdown(failures: list[Failure]) -> str:
    """A table with one row a failure."""
    lines = ["| | sentence | its translation | cosine | what was nearer | cosine |", "|---|---|---|---:|---|---:|"]
    lines += [
        f"| {one.label} | {_cell(one.text)} | {_cell(one.translation)} | {one.cosine:.2f} | {_cell(one.found)} "
        f"| {one.found_cosine:.2f} |"
        for one in failures
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
    return shown.replace("|", "\\|")
