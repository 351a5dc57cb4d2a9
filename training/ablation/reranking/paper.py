"""The paper's results: Chen et al., "Cross-Lingual Passage Re-Ranking With Alignment Augmented Multilingual BERT",
IEEE Access 8, 2020. Scores x 100 of mBERT, in English and Chinese.
"""

from __future__ import annotations

CITATION = (
    "Chen et al., Cross-Lingual Passage Re-Ranking With Alignment Augmented Multilingual BERT, IEEE Access 8, 2020"
)
METRICS = ("acc@1", "acc@10", "mrr", "map")
INSURANCE_QA = {  # cell -> METRICS
    "merged": (25.29, 52.18, 34.57, 28.81),
    "cascade": (25.42, 53.85, 35.22, 29.43),
    "mixed": (26.95, 64.92, 39.51, 34.55),
    "XPI + merged": (26.83, 59.14, 37.72, 32.14),
    "XPI + cascade": (24.49, 56.80, 35.34, 29.91),
    "XPI + mixed": (28.43, 67.38, 40.86, 36.10),
}
ZERO_SHOT = {  # set -> cell -> acc@1, acc@10, MRR
    "bipar": {"mixed": (15.13, 39.50, 23.41), "XPI + mixed": (17.07, 42.73, 25.95)},
    "mlqa": {"mixed": (29.96, 58.93, 39.48), "XPI + mixed": (33.33, 64.68, 43.04)},
    "xquad": {"mixed": (47.9, 83.19, 59.81), "XPI + mixed": (56.64, 88.40, 67.80)},
}


def zero_shot_of(label: str) -> dict[str, tuple[float, float, float]] | None:
    """The paper's rows for a measured set such as `bipar_test`."""
    return next((rows for name, rows in ZERO_SHOT.items() if label.startswith(name)), None)
