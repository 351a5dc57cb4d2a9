"""A cheap score during training: Spearman on a fixed sample of a similarity set, English against others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.config.run import STSB_DEV
from training.errors import EvaluationError
from training.evaluation.sts import find_sts, spearman_of_cosines, spread
from training.evaluation.vectors import Encode


class DevScore:
    """Reads its sentences once; called with an encoder, gives the mean over pairs of Spearman x 100.

    Args:
        dev: folder of `data`/eval, in a layout of `training.evaluation.sts`.
        rows: at most so many of each pair, evenly spaced: the file's parts (captions, forums, news) are all in it.
    Raises: EvaluationError: the folder has no dev file of English against any of the languages.
    """

    def __init__(self, data: Path, languages: list[str], *, dev: str = STSB_DEV, rows: int = 150) -> None:
        folder = data / "eval" / dev
        found = find_sts(folder)
        readers = {
            f"en-{language}": found[pair]
            for language in languages
            for pair in (f"en-{language}", f"{language}-en")  # STS2017 has some pairs the other way round
            if pair in found
        }
        if not readers:
            raise EvaluationError(
                f"{folder} has no en-<language>.tsv for {', '.join(languages)}: nothing to validate on; a stage's "
                "validate_pairs asks for it"
            )
        self.pairs = {pair: spread(read(), rows) for pair, read in readers.items()}

    def __call__(self, encode: Encode) -> float:
        """The score of an encoder as it is now."""
        return float(np.mean(list(self.by_pair(encode).values())))

    def by_pair(self, encode: Encode) -> dict[str, float]:
        """Its score in each pair, English first."""
        texts = sorted({text for _, left, right in self.pairs.values() for text in (*left, *right)})
        vectors_ND = encode(texts)  # all at once: pairs share their English, and lengths batch well
        row = {text: index for index, text in enumerate(texts)}
        return {
            pair: spearman_of_cosines(
                vectors_ND[[row[text] for text in left]], vectors_ND[[row[text] for text in right]], gold
            )
            for pair, (gold, left, right) in self.pairs.items()
        }
