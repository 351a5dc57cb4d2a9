"""The paper's results: Ding et al., "Multi-stage Distillation Framework for Cross-Lingual Semantic Similarity
Matching", Findings of NAACL 2022, https://aclanthology.org/2022.findings-naacl.167/. Spearman's rho x 100 on STS2017.
"""

from __future__ import annotations

from dataclasses import dataclass

CITATION = (
    "Ding et al., Multi-stage Distillation Framework for Cross-Lingual Semantic Similarity Matching, "
    "Findings of NAACL 2022, https://aclanthology.org/2022.findings-naacl.167/"
)
PAIRS = ("en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl")


@dataclass(frozen=True)
class PublishedModel:
    """A row of the paper's main table. `mono`: the mean of ar-ar, es-es and en-en; sizes in millions of parameters."""

    mono: float
    cross: float
    pairs: tuple[float, ...]  # in the order of PAIRS
    embedding_millions: float
    encoder_millions: float


@dataclass(frozen=True)
class PublishedVariant:
    """A row of one of the paper's tables; `mono`, and `pairs` in the order of PAIRS, if the paper gives them."""

    cross: float
    mono: float | None = None
    pairs: tuple[float, ...] = ()


MODELS = {
    "LASER": PublishedModel(75.4, 67.0, (66.5, 64.2, 72.0, 57.9, 69.1, 70.8, 68.5), 23.56, 17.06),
    "LaBSE": PublishedModel(76.4, 73.5, (74.5, 73.8, 72.0, 65.5, 77.0, 76.9, 75.1), 385.28, 85.05),
    "mBERT ← SBERT-paraphrases": PublishedModel(84.6, 82.7, (80.8, 83.6, 77.9, 83.6, 84.6, 84.6, 84.2), 92.20, 85.05),
    "XLM-R ← SBERT-paraphrases": PublishedModel(84.6, 83.7, (82.3, 84.0, 80.9, 83.1, 84.9, 86.3, 84.5), 192.40, 85.05),
    "MiniLM ← SBERT-paraphrases": PublishedModel(83.5, 80.9, (81.3, 82.7, 74.8, 83.2, 80.3, 82.4, 82.2), 96.21, 21.29),
    "student XLM-R, B=128, M=3": PublishedModel(82.6, 79.4, (78.0, 79.8, 73.9, 80.5, 82.1, 80.3, 81.2), 32.49, 21.26),
    "student XLM-R, B=128, M=12": PublishedModel(84.3, 82.8, (79.4, 83.6, 78.7, 83.3, 84.2, 85.6, 84.8), 32.49, 85.05),
    "student XLM-R, full table, M=3": PublishedModel(
        85.0, 83.2, (81.1, 84.3, 79.8, 82.6, 84.5, 84.8, 85.4), 192.40, 21.26
    ),
    "student MiniLM, B=128, M=3": PublishedModel(78.8, 71.8, (73.0, 76.0, 63.7, 71.4, 71.8, 72.1, 74.7), 32.05, 5.32),
    "student MiniLM, B=128, M=12": PublishedModel(82.9, 79.8, (79.7, 81.0, 74.1, 81.9, 80.1, 80.8, 80.7), 32.05, 21.29),
    "student MiniLM, full table, M=3": PublishedModel(
        83.6, 81.3, (82.3, 82.8, 76.9, 82.1, 80.5, 82.3, 82.4), 96.21, 5.32
    ),
}

VARIANTS = {  # reported beside cells of the same name
    "full": PublishedVariant(79.4, 82.6),
    "w/o MCL": PublishedVariant(78.5, 82.3),
    "w/o Rec.": PublishedVariant(71.7, 78.0),
    "w/o MCL and Rec.": PublishedVariant(70.9, 77.9),
    "Bool": PublishedVariant(79.0),
    "CE": PublishedVariant(78.9),
    "stages 1+2": PublishedVariant(20.8, 48.4),
    "stages 1+2+3": PublishedVariant(70.6, 75.2),
    "single-stage, random": PublishedVariant(71.1, 78.1),
    "single-stage, pre-distilled": PublishedVariant(73.8, 79.0),
}


def published_row(name: str) -> PublishedVariant | None:
    """The paper's row for a cell of this name: a variant of the XLM-R student (B=128, M=3), or a model."""
    model = MODELS.get("student XLM-R, B=128, M=3" if name == "full" else name)
    if model is not None:
        return PublishedVariant(model.cross, model.mono, model.pairs)
    return VARIANTS.get(name)
