"""Scores the models of a training run, and formats scores as tables. Scores are x 100."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np

from training.evaluation.bitext import evaluate_bitext, evaluate_tatoeba, find_bitext
from training.evaluation.sts import evaluate_sts
from training.evaluation.vectors import Encode, each_text_once

MetricScores = dict[str, dict[str, float]]  # metric -> language, pair or detail -> score
AVERAGE = "average"
HELD_OUT = "held_out"  # the folder under eval/ of pairs held out of a run's own text (`training.pipeline.inputs`)
HELD_OUT_METRIC = "held_out_p1"


def evaluate(
    encode: Encode,
    data: Path,
    languages: list[str],
    *,
    sts_rows: int | None = None,
    tatoeba_rows: int | None = None,
) -> MetricScores:
    """Score STSb dev and test, STS2017, Tatoeba P@1 and held-out pairs, whichever exist, each with its average.

    Args: sts_rows: at most this many rows a file, evenly spaced.  tatoeba_rows: at most the first N rows.  None: all.
    """
    encode = each_text_once(encode)
    crosslingual = [f"en-{language}" for language in languages]
    monolingual = [f"{language}-{language}" for language in ["en", *languages]]
    dev, test, sts2017 = (data / "eval" / folder for folder in ("stsb/dev", "stsb/test", "STS2017-extended"))
    folders = {language: data / "eval" / HELD_OUT / f"en-{language}" for language in languages}
    held_out = {
        language: bitext
        for language, folder in folders.items()
        if folder.is_dir()
        for bitext in find_bitext(folder).values()
    }
    reversed_ = [f"{language}-en" for language in languages]  # STS2017 names some pairs en-xx, others xx-en
    scores = {
        "stsb_dev": evaluate_sts(encode, dev, crosslingual, rows=sts_rows),
        "stsb_test": evaluate_sts(encode, test, crosslingual, rows=sts_rows),
        "stsb_test_monolingual": evaluate_sts(encode, test, monolingual, rows=sts_rows),
        "sts2017": evaluate_sts(encode, sts2017, [*crosslingual, *reversed_], rows=sts_rows),
        "sts2017_monolingual": evaluate_sts(encode, sts2017, monolingual, rows=sts_rows),
        "tatoeba_p1": evaluate_tatoeba(encode, data / "eval/tatoeba", languages, rows=tatoeba_rows),
        HELD_OUT_METRIC: evaluate_bitext(encode, held_out).get("p1", {}),
    }
    return {name: with_average(values) for name, values in scores.items() if values}


def check_sets(data: Path, languages: list[str]) -> None:
    """Read everything that `evaluate` scores, to find malformed lines before training.

    Raises: EvaluationError: names the file and the line.
    """
    evaluate(lambda texts: np.ones((len(texts), 1), dtype=np.float32), data, languages)


def with_average(values: dict[str, float]) -> dict[str, float]:
    """The scores and their mean; empty if there are none."""
    return {**values, AVERAGE: round(sum(values.values()) / len(values), 2)} if values else {}


def markdown(scores: MetricScores) -> str:
    """Format scores as tables: metrics with the same columns share a table; the average is last."""
    tables = []
    for columns, metrics in groupby(scores, key=lambda metric: [name for name in scores[metric] if name != AVERAGE]):
        rows = list(metrics)
        header = [*columns, *([AVERAGE] if any(AVERAGE in scores[metric] for metric in rows) else [])]
        lines = [["", *header], ["---", *("---:" for _ in header)]]
        for metric in rows:
            values = scores[metric]
            lines += [[metric, *(f"{values[name]:.2f}" if name in values else "" for name in header)]]
        tables.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
    return "\n\n".join(tables)
