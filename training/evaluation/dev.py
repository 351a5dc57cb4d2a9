"""A cheap score during training: Spearman on a fixed sample of the STS benchmark's dev set, English against others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.errors import EvaluationError
from training.evaluation.sts import find_sts, spearman_of_cosines, spread
from training.evaluation.vectors import Encode


class DevScore:
    """Reads its sentences once; called with an encoder, gives the mean over pairs of Spearman x 100.

    Args:
        rows: at most so many of each pair, evenly spaced: the file's parts (captions, forums, news) are all in it.
    Raises: EvaluationError: the folder has no dev file of English against any of the languages.
    """

    def __init__(self, data: Path, languages: list[str], *, rows: int = 150) -> None:
        folder = data / "eval/stsb/dev"
        found = find_sts(folder)
        readers = [found[f"en-{language}"] for language in languages if f"en-{language}" in found]
        if not readers:
            raise EvaluationError(
                f"{folder} has no en-<language>.tsv for {', '.join(languages)}: nothing to validate on; a stage's "
                "validate_pairs asks for it"
            )
        self.pairs = [spread(read(), rows) for read in readers]

    def __call__(self, encode: Encode) -> float:
        """The score of an encoder as it is now."""
        texts = sorted({text for _, left, right in self.pairs for text in (*left, *right)})
        vectors_ND = encode(texts)  # all at once: pairs share their English, and lengths batch well
        row = {text: index for index, text in enumerate(texts)}
        scores = [
            spearman_of_cosines(
                vectors_ND[[row[text] for text in left]], vectors_ND[[row[text] for text in right]], gold
            )
            for gold, left, right in self.pairs
        ]
        return float(np.mean(scores))
