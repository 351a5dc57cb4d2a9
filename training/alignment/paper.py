"""What Huang et al. 2023 print: P@1 x 100 of mBERT on Chinese to Vietnamese, but for the other language pairs."""

from __future__ import annotations

from collections.abc import Mapping

# Table name -> row -> the paper's P@1. A row that the paper has not is not here.
PAPER_ROWS: Mapping[str, Mapping[str, float]] = {
    "head": {"before": 41.2, "siamese head": 63.1},  # Table 4; with XLM 58.0 and 70.1
    "structures": {"linear": 63.1, "tanh": 53.3, "relu": 35.5, "two-tanh": 52.9},  # Table 6, 10 rounds
    "distances": {"euclidean": 63.1, "manhattan": 59.9, "cosine": 27.5},
    "layers": {"1": 45.8, "7": 63.1, "12": 54.9, "all": 60.5, "cls": 40.2},
    "negatives": {"none": 55.1, "random": 58.6, "hardest": 63.1, "farthest": 63.1, "average": 57.3},
    "documents": {"before": 33.1, "siamese head": 37.5},
    "en-zh": {"before": 71.1, "siamese head": 73.0},  # 2,000 pairs
    "en-fr": {"before": 76.8, "siamese head": 78.5},
}
# Table name -> the finding, and the row that is best by it; None: what is compared is not one row.
FINDINGS: Mapping[str, tuple[str, str | None]] = {
    "head": ("a linear head helps", "siamese head"),
    "structures": ("one linear layer is best", "linear"),
    "distances": ("the Euclidean distance is best", "euclidean"),
    "layers": ("the seventh of twelve layers is best", "7"),
    "negatives": ("the worst negatives are best", "hardest"),
    "documents": ("the head helps documents too", "siamese head"),
    "sizes": ("the gain grows with the pairs and flattens after some 3,000", None),
    "en-zh": ("the head helps a large language a little", "siamese head"),
    "en-fr": ("the head helps a large language a little", "siamese head"),
}
