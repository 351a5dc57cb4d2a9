"""Bitext retrieval: is a sentence's nearest neighbour among all translations its own? (Tatoeba, LASER's layout)"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.evaluation.sts import Encode, unit_rows

# ISO 639-1 as we name languages -> the code of LASER's Tatoeba files
TATOEBA_CODES = {
    "ar": "ara", "bg": "bul", "cs": "ces", "da": "dan", "de": "deu", "el": "ell", "es": "spa", "et": "est", "fa": "pes",
    "fi": "fin", "fr": "fra", "he": "heb", "hi": "hin", "hu": "hun", "id": "ind", "it": "ita", "ja": "jpn", "ko": "kor",
    "lt": "lit", "nb": "nob", "nl": "nld", "pl": "pol", "pt": "por", "ro": "ron", "ru": "rus", "sv": "swe", "th": "tha",
    "tr": "tur", "uk": "ukr", "vi": "vie", "zh": "cmn",
}  # fmt: skip


def precision_at_1(query_ND: NDArray[np.float32], candidate_ND: NDArray[np.float32]) -> float:
    """Share x 100 of rows i whose best candidate by cosine is candidate i."""
    scores_NN = unit_rows(query_ND) @ unit_rows(candidate_ND).T
    return float((scores_NN.argmax(axis=1) == np.arange(len(query_ND))).mean()) * 100


def evaluate_tatoeba(encode: Encode, folder: Path, languages: list[str]) -> dict[str, float]:
    """P@1 x 100, both directions averaged, of each language that has files in `folder`."""
    scores = {}
    for language in languages:
        stem = f"tatoeba.{TATOEBA_CODES.get(language, language)}-eng"
        other_path = folder / f"{stem}.{TATOEBA_CODES.get(language, language)}"
        if other_path.is_file():
            other_ND = encode(other_path.read_text(encoding="utf-8").splitlines())
            english_ND = encode((folder / f"{stem}.eng").read_text(encoding="utf-8").splitlines())
            both = precision_at_1(other_ND, english_ND), precision_at_1(english_ND, other_ND)
            scores[language] = round(sum(both) / 2, 2)
    return scores
