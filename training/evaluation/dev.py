"""A fast score for use during training: Spearman on a fixed sample of an STS set, English against other languages."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.config.run import STSB_DEV
from training.errors import EvaluationError
from training.evaluation.sts import find_sts, is_rankable, spearman_of_cosines, spread
from training.evaluation.vectors import Encode


class DevScore:
    """Reads its sentences once. Called with an encoder, it returns Spearman x 100, averaged over language pairs.

    Args:
        dev: folder in `data`/eval, in a layout of `training.evaluation.sts`.
        rows: at most this many rows a pair, evenly spaced over the file's parts (captions, forums, news).
    Raises: EvaluationError: the folder has no dev file of English against any of the languages with two scores.
    """

    def __init__(self, data: Path, languages: list[str], *, dev: str = STSB_DEV, rows: int = 150) -> None:
        folder = data / "eval" / dev
        found = find_sts(folder)
        readers = {
            f"en-{language}": found[pair]
            for language in languages
            for pair in (f"en-{language}", f"{language}-en")  # STS2017 names some pairs en-xx, others xx-en
            if pair in found
        }
        if not readers:
            raise EvaluationError(
                f"{folder} has no en-<language>.tsv for {', '.join(languages)}: nothing to validate on; add a file, "
                "or remove validate_pairs from the stages"
            )
        chosen = {pair: spread(read(), rows) for pair, read in readers.items()}
        self.pairs = {pair: one for pair, one in chosen.items() if is_rankable(one[0], where=f"{folder}: {pair}")}
        if not self.pairs:
            raise EvaluationError(f"{folder} has no file with two different scores: nothing to validate on")

    def __call__(self, encode: Encode) -> float:
        """Score an encoder: Spearman x 100, mean over pairs."""
        return float(np.mean(list(self.by_pair(encode).values())))

    def by_pair(self, encode: Encode) -> dict[str, float]:
        """Spearman x 100 of an encoder by language pair."""
        texts = sorted({text for _, left, right in self.pairs.values() for text in (*left, *right)})
        vectors_ND = encode(texts)  # in one call: pairs share English texts, and similar lengths batch together
        row = {text: index for index, text in enumerate(texts)}
        return {
            pair: spearman_of_cosines(
                vectors_ND[[row[text] for text in left]], vectors_ND[[row[text] for text in right]], gold
            )
            for pair, (gold, left, right) in self.pairs.items()
        }
