"""The options that `crosslet align` and `crosslet adapt` share, and the files of pairs that they name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from training.alignment.pairs import PairFile, read_pairs
from training.alignment.probe import MAX_LOSS
from training.corpora.cleaning.leakage import EvaluationSentences
from training.errors import TrainingError

LEAST_TEST = 10  # pairs of --test


def add_arguments(parser: argparse.ArgumentParser, *, pairs_required: bool) -> None:
    """Add them.  pairs_required: whether MODEL and --pairs must be given."""
    add = parser.add_argument
    add(
        "model",
        metavar="MODEL",
        nargs=None if pairs_required else "?",
        help="folder of an artifact or a checkpoint; `align` also takes any sentence-transformers model",
    )
    add(
        "--pairs",
        type=Path,
        metavar="FILE",
        required=pairs_required,
        help="zh-vi.tsv: left<TAB>right, or what `mine` writes",
    )
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the report and the model")
    add("--test", type=Path, metavar="FILE", help="pairs to measure with; default: part of --pairs is held out")
    add("--languages", type=_pair, metavar="zh,vi", help="of the two columns; default: the file's name says them")
    add("--min-score", type=float, metavar="X", help="of pairs that `crosslet mine` found")
    add("--licence", default="not stated", help="of the pairs, for the card; default: %(default)s")
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with stsb/dev or eval/stsb/dev: similarity must not fall either",
    )
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--force", action="store_true", help=f"write the model though a language loses more than {MAX_LOSS} points")
    add("--overwrite", action="store_true", help="replace the model of an earlier run in --out")


def exit_status(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """What `run` returns; 2 with one sentence after an error, 130 on Ctrl-C."""
    try:
        return run(options)
    except (TrainingError, OSError, SafetensorError) as exc:  # the last: a full disk
        print(f"error: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 130


def at_least_1(text: str) -> int:
    """A whole number of 1 or more, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def read_files(options: argparse.Namespace) -> tuple[PairFile, PairFile | None]:
    """The pairs, without sentences of the evaluation sets that ship with this project, and those of --test.

    Raises: AlignmentError: one sentence on what is wrong with a file.
    """
    pairs = read_pairs(
        options.pairs,
        languages=options.languages,
        min_score=options.min_score,
        barred=EvaluationSentences.shipped(),
    )
    test = read_pairs(options.test, languages=pairs.languages, least=LEAST_TEST) if options.test else None
    return pairs, test


def _pair(text: str) -> tuple[str, str]:
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != 2 or not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not two languages, e.g. zh,vi")
    return names[0], names[1]
