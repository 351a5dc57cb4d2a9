"""`crosslet evaluate MODEL --data DIR` or `python -m training.evaluation`: scores a model, as JSON or tables."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterable
from pathlib import Path

from training.errors import EvaluationError
from training.evaluation.encoders import load_model
from training.evaluation.failures import Failure, failures_markdown
from training.evaluation.report import Scores, markdown
from training.evaluation.search import BUNDLED
from training.evaluation.served_reranker import ServedReranker, is_served_reranker
from training.evaluation.sets import (
    DEFAULT_KINDS,
    KINDS,
    Choice,
    evaluate_folder,
    evaluate_reranker,
    find_failures,
)
from training.evaluation.vectors import each_text_once
from training.reranking.checkpoint import is_cross_encoder, load_cross_encoder
from training.reranking.ranking import Scorer
from training.reranking.scorers import BiEncoderScorer, CrossEncoderScorer, bm25
from training.system.device import pick_device
from training.system.files import write_json_atomically


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0; 2 after an error, such as no model or no set; 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("training").setLevel(logging.INFO)
    try:
        if options.out and not options.out.parent.is_dir():
            raise EvaluationError(f"the folder of --out does not exist: {options.out.parent}")
        scores, failures = _scores(options)
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


def _scores(options: argparse.Namespace) -> tuple[Scores, list[Failure]]:
    """Of a re-ranker, or of an encoder with its worst failures where they are asked for."""
    folder = Path(options.model)
    if is_cross_encoder(folder) or is_served_reranker(folder):
        return evaluate_reranker(_reranker(options), options.data, _choice(options, options.languages)), []
    model = load_model(options.model, trust_remote_code=options.trust_remote_code)
    choice = _choice(options, options.languages or model.languages)
    scores = evaluate_folder(
        model.encode, options.data, choice, query=model.encode_query, document=model.encode_document
    )
    return scores, find_failures(model.encode, options.data, choice, options.failures) if options.failures else []


def _reranker(options: argparse.Namespace) -> dict[str, Scorer]:
    """The cross-encoder, BM25, and the bi-encoder that is to stand beside them."""
    scorers: dict[str, Scorer] = {"": _own_scorer(Path(options.model)), "_bm25": bm25}
    if options.baseline is not None:
        encoder = load_model(options.baseline, trust_remote_code=options.trust_remote_code)
        encoders = each_text_once(encoder.encode_query), each_text_once(encoder.encode_document)
        scorers["_bi_encoder"] = BiEncoderScorer(*encoders)
    return scorers


def _own_scorer(folder: Path) -> Scorer:
    """Of an artifact, or of a checkpoint."""
    if not is_cross_encoder(folder):
        return ServedReranker(folder)
    model, tokenizer, facts = load_cross_encoder(folder)
    return CrossEncoderScorer(model.to(pick_device()), tokenizer, max_length=facts.max_length)


def _choice(options: argparse.Namespace, languages: Iterable[str] | None) -> Choice:
    return Choice(options.sets, tuple(languages) if languages else None, options.threshold, options.queries)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="crosslet evaluate", description="Score a model; docs/guide/evaluate.md has more."
    )
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
        help="folder with evaluation sets, in it or in DIR/eval; default: the bundled search set",
    )
    parser.add_argument(
        "--sets",
        type=_kinds,
        default=DEFAULT_KINDS,
        metavar="KINDS",
        help=f"any of {','.join(KINDS)}; default: all but rerank",
    )
    parser.add_argument(
        "--languages", type=_names, help="score only these and English, e.g. de,fr; default: the model's, or all"
    )
    parser.add_argument(
        "--threshold", type=float, help="lowest margin of a mined pair; default: chosen on the half that is not scored"
    )
    parser.add_argument(
        "--queries", type=int, metavar="N", help="rerank: at most N queries of each set, evenly spaced; default: all"
    )
    parser.add_argument("--baseline", metavar="MODEL", help="rerank: an encoder to compare the cross-encoder with")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the scores to this file, as JSON")
    parser.add_argument(
        "--failures", type=int, default=0, metavar="N", help="also print the N worst errors of each bitext set"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables, not JSON")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _kinds(text: str) -> tuple[str, ...]:
    unknown = [name for name in _names(text) if name not in KINDS]
    if unknown or not _names(text):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'} is not one of {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in _names(text))


if __name__ == "__main__":
    sys.exit(main())
