"""Maps parallel sentences to a plane (t-SNE), and measures how close translations are.

Shapes: S sentences, T languages, D dims.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

import training.models.sentence_encoder  # noqa: F401  (registers the architecture of our checkpoints)
from training.evaluation.sts import find_sts
from training.models.loading import load_sentence_transformer

SENTENCES = 30


@dataclass(frozen=True)
class SentenceMap:
    """The position of each sentence in each language: `points` is (S, T, 2), in the order of `languages`."""

    languages: list[str]
    points: NDArray[np.float32]
    translations: float  # mean cosine between translations
    others: float  # mean cosine between different sentences in different languages


def read_translations(data: Path, languages: list[str], *, sentences: int = SENTENCES) -> dict[str, list[str]]:
    """Aligned sentences of STSb test: language -> texts; empty if no sentence exists in all languages.

    Sentence 1 of a row of `xx-xx.tsv` translates sentence 1 of the same row of `en-xx.tsv`.
    """
    readers = find_sts(data / "eval/stsb/test")
    found: dict[str, dict[str, str]] = {}
    for language in languages:
        across, within = f"en-{language}", f"{language}-{language}"
        if across in readers and within in readers:
            english, other = readers[across]()[1], readers[within]()[1]
            if len(english) == len(other):
                found[language] = dict(zip(english, other, strict=True))
    if not found:
        return {}
    shared = [text for text in next(iter(found.values())) if all(text in each for each in found.values())]
    if not shared:
        return {}
    step = max(1, len(shared) // sentences)  # evenly spaced: neighbouring rows are similar
    chosen = shared[::step][:sentences]
    return {"en": chosen, **{language: [each[text] for text in chosen] for language, each in found.items()}}


def map_sentences(checkpoint: Path, texts: dict[str, list[str]]) -> SentenceMap:
    """Encode and project by t-SNE on cosine distance. Nearby points are similar; large distances mean little."""
    model = load_sentence_transformer(str(checkpoint), device="cpu")
    flat = [text for column in texts.values() for text in column]
    vectors_ND = model.encode(flat, normalize_embeddings=True, show_progress_bar=False)
    languages, count = list(texts), len(flat) // len(texts)
    layout = TSNE(perplexity=min(2 * len(languages), len(flat) // 4), metric="cosine", init="random", random_state=0)
    points_TSX = layout.fit_transform(vectors_ND).reshape(len(languages), count, 2)
    translations, others = mean_cosines(vectors_ND.reshape(len(languages), count, -1))
    return SentenceMap(languages, points_TSX.transpose(1, 0, 2), translations, others)


def mean_cosines(unit_TSD: NDArray[np.float32]) -> tuple[float, float]:
    """Mean cosine between languages of (translations, different sentences), from unit vectors."""
    cosine_TSTS = np.einsum("asd,bud->asbu", unit_TSD, unit_TSD)
    languages, sentences = unit_TSD.shape[:2]
    crosses_T1T1 = ~np.eye(languages, dtype=bool)[:, None, :, None]
    same_1S1S = np.eye(sentences, dtype=bool)[None, :, None, :]
    same, different = crosses_T1T1 & same_1S1S, crosses_T1T1 & ~same_1S1S
    return float(cosine_TSTS[same].mean()), float(cosine_TSTS[different].mean())
