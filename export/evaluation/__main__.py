"""`crosslet evaluate MODEL --data DIR` or `python -m export.evaluation`: scores a model, as JSON or tables.

Arguments are checked before anything slow is imported.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from service.spelling import Parser, nearest
from training.errors import EvaluationError
from training.evaluation.search import BUNDLED
from training.system.command import exit_status
from training.system.files import is_path, write_json_atomically

if TYPE_CHECKING:
    from service.blending import Weight

KINDS = ("sts", "paraphrase", "bitext", "mining", "retrieval", "search", "typing", "passages", "rerank")
DEFAULT_KINDS = KINDS[:-3]  # the last take minutes
DEV_PASSAGES = "_passages_dev_"  # in the name of a metric that is not to be reported


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0; 2 after an error, such as no model or no set; 130 after Ctrl-C."""
    options = evaluate_parser().parse_args(arguments)
    return exit_status(lambda: evaluate(options))


def evaluate(options: argparse.Namespace) -> None:
    """Score the model, then write and print what was asked for."""
    check(options)
    from export.evaluation.scoring import scores_of  # here: torch takes seconds to load
    from training.evaluation.bitext import failures_markdown
    from training.evaluation.report import markdown

    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    for package in ("training", "export"):
        logging.getLogger(package).setLevel(logging.INFO)
    scores, failures = scores_of(options)
    if options.out:
        write_json_atomically(options.out, scores)
    reported = {metric: values for metric, values in scores.items() if DEV_PASSAGES not in metric}
    print(markdown(reported) if options.markdown else json.dumps(scores, indent=1))
    if failures:
        print(f"\n{failures_markdown(failures)}")


def check(options: argparse.Namespace) -> None:
    """Raises: EvaluationError: a folder that is named does not exist, a file is one, or a number is too small."""
    for name, path in (("out", options.out), ("plot", options.plot)):
        if path and not path.parent.is_dir():
            raise EvaluationError(f"the folder of --{name} does not exist: {path.parent}")
        if path and path.is_dir():
            raise EvaluationError(f"--{name} {path} is a folder; name a file")
    if options.rerank_k is not None and options.baseline is None:
        raise EvaluationError("--rerank-k re-ranks what an encoder found; name it with --baseline")
    for name, least in (("rerank_k", 1), ("dimensions", 1), ("queries", 1), ("distractors", 0), ("failures", 0)):
        if (number := getattr(options, name)) is not None and number < least:
            raise EvaluationError(f"--{name.replace('_', '-')} is {number}; it must be at least {least}")
    for name in ("plot", "reranker", "distractors"):
        if getattr(options, name) and not options.calibrate:
            raise EvaluationError(f"--{name} belongs to --calibrate; send both")
    if not options.data.is_dir():
        raise EvaluationError(f"there is no folder {options.data}{_nearest(options.data)}")
    for name in filter(None, (options.model, options.baseline)):
        is_below = name.count("/") == 1 and Path(name).parent.is_dir()  # like models/mine where models is a folder
        if (is_path(name) or is_below) and not Path(name).is_dir():
            raise EvaluationError(f"there is no folder {name}{_nearest(Path(name))}")


def _nearest(path: Path) -> str:
    """What may be meant, of the folders beside the one that is missing."""
    there = [one.name for one in path.parent.iterdir() if one.is_dir()] if path.parent.is_dir() else []
    near = nearest(path.name, there)
    return f"; did you mean {path.with_name(near)}?" if near else ""


def evaluate_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(prog="crosslet evaluate", description="Score a model; docs/guide/evaluate.md has more.")
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="folder of an artifact, a checkpoint, a cross-encoder or a sentence-transformers model, or a hub name",
    )
    parser.add_argument("--trust-remote-code", action="store_true", help="allow the model's own Python code to run")
    parser.add_argument(
        "--data",
        type=Path,
        default=BUNDLED,
        metavar="DIR",
        help="folder with evaluation sets, in it or in DIR/eval; default: the bundled sets of searches",
    )
    parser.add_argument(
        "--sets",
        type=_kinds,
        default=DEFAULT_KINDS,
        metavar="KINDS",
        help=f"any of {','.join(KINDS)}, or all; default: all but typing, passages and rerank",
    )
    parser.add_argument(
        "--languages", type=_names, help="score only these and English, e.g. de,fr; default: the model's, or all"
    )
    parser.add_argument("--dimensions", type=int, metavar="N", help="score vectors of the first N dimensions")
    parser.add_argument(
        "--threshold", type=float, help="lowest margin of a mined pair; default: chosen on the half that is not scored"
    )
    parser.add_argument(
        "--queries",
        type=int,
        metavar="N",
        help="passages, rerank: at most N queries of each set, evenly spaced; default: all",
    )
    parser.add_argument(
        "--one-language", action="store_true", help="rerank: leave out query and passages in two languages; mixed stays"
    )
    parser.add_argument("--baseline", metavar="MODEL", help="rerank: an encoder to compare the cross-encoder with")
    parser.add_argument(
        "--rerank-k",
        type=int,
        metavar="N",
        help="rerank: the cross-encoder scores the baseline's first N, as in a search; default: all candidates",
    )
    parser.add_argument(
        "--rerank-weight",
        type=_weight,
        default=0.2,
        metavar="W",
        help="with --rerank-k: how far its best score moves a cosine towards 1, or alone; CROSSLET_RERANK_WEIGHT (0.2)",
    )
    parser.add_argument(
        "--calibrate", action="store_true", help="fit an artifact's confidence on DIR/qa, keep it in its manifest"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="with --calibrate: plot how reliable it is")
    parser.add_argument(
        "--reranker", type=Path, metavar="DIR", help="with --calibrate: measure re-ranked searches, too (--queries)"
    )
    parser.add_argument(
        "--distractors", type=int, default=0, metavar="N", help="with --calibrate: also beside N sentences of DIR/mono"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the scores to this file, as JSON")
    parser.add_argument(
        "--failures", type=int, default=0, metavar="N", help="also print the N worst errors of each bitext set"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables, not JSON")
    return parser


def _weight(text: str) -> Weight:
    try:
        weight: Weight = "alone" if text == "alone" else float(text)
    except ValueError:
        weight = math.nan
    if isinstance(weight, float) and not 0 <= weight <= 1:
        raise argparse.ArgumentTypeError(f"{text} is neither a number in [0, 1] nor the word alone")
    return weight


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _kinds(text: str) -> tuple[str, ...]:
    if text == "all":
        return KINDS
    unknown = [name for name in _names(text) if name not in KINDS]
    if unknown or not _names(text):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'} is not one of {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in _names(text))


if __name__ == "__main__":
    sys.exit(main())
