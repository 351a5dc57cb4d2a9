"""`crosslet evaluate MODEL --data DIR` or `python -m training.evaluation`: scores of a model, as JSON or tables."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path

from training.errors import EvaluationError
from training.evaluation.encoders import load_model
from training.evaluation.failures import failures_markdown
from training.evaluation.report import markdown
from training.evaluation.search import BUNDLED
from training.evaluation.sets import KINDS, Choice, evaluate_folder, find_failures
from training.files import write_json_atomically


def main(arguments: list[str] | None = None) -> int:
    """Returns: 0; 2 with one sentence where there is no model or nothing to score it on; 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("training").setLevel(logging.INFO)
    try:
        if options.out and not options.out.parent.is_dir():
            raise EvaluationError(f"there is no folder {options.out.parent} for --out")
        model = load_model(options.model, trust_remote_code=options.trust_remote_code)
        languages = options.languages or model.languages
        choice = Choice(options.sets, tuple(languages) if languages else None, options.threshold)
        scores = evaluate_folder(
            model.encode, options.data, choice, query=model.encode_query, document=model.encode_document
        )
        failures = find_failures(model.encode, options.data, choice, options.failures) if options.failures else []
        if options.out:
            write_json_atomically(options.out, scores)
    except (EvaluationError, OSError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    print(markdown(scores) if options.markdown else json.dumps(scores, indent=1))
    if failures:
        print(f"\n{failures_markdown(failures)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="crosslet evaluate", description="Score a model; docs/guide/evaluate.md has more."
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="folder of an artifact, a checkpoint or a sentence-transformers model, or a hub name",
    )
    parser.add_argument("--trust-remote-code", action="store_true", help="run Python files of the model's folder")
    parser.add_argument(
        "--data",
        type=Path,
        default=BUNDLED,
        metavar="DIR",
        help="folder of evaluation sets, or one that has them in DIR/eval; default: this project's own search set",
    )
    parser.add_argument(
        "--sets", type=_kinds, default=tuple(KINDS), metavar="KINDS", help=f"some of {','.join(KINDS)}; default: all"
    )
    parser.add_argument(
        "--languages", type=_names, help="only files in these and English, e.g. de,fr; default: the model's, or all"
    )
    parser.add_argument(
        "--threshold", type=float, help="margin from which mining keeps a pair; default: chosen on the other half"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the scores there too, as JSON")
    parser.add_argument(
        "--failures", type=int, default=0, metavar="N", help="then show the N worst errors of each bitext set"
    )
    parser.add_argument("--markdown", action="store_true", help="print tables")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _kinds(text: str) -> tuple[str, ...]:
    unknown = [name for name in _names(text) if name not in KINDS]
    if unknown or not _names(text):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'} is not among {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in _names(text))


if __name__ == "__main__":
    sys.exit(main())
