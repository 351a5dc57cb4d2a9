"""Scores what `crosslet evaluate` names: an encoder, or a re-ranker beside BM25 and a bi-encoder."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from training.evaluation.encoders import load_model
from training.evaluation.failures import Failure
from training.evaluation.report import Scores
from training.evaluation.served_reranker import ServedReranker, is_served_reranker
from training.evaluation.sets import Choice, evaluate_folder, evaluate_reranker, find_failures
from training.evaluation.vectors import each_text_once
from training.reranking.checkpoint import is_cross_encoder, load_cross_encoder
from training.reranking.ranking import Scorer
from training.reranking.scorers import BiEncoderScorer, CrossEncoderScorer, TwoStageScorer, bm25, probabilities
from training.system.device import pick_device


def scores_of(options: argparse.Namespace) -> tuple[Scores, list[Failure]]:
    """Of a re-ranker, or of an encoder with its worst failures where they are asked for.

    Raises: EvaluationError: the model or a set is missing or malformed.
    """
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
    """The cross-encoder, BM25, and the bi-encoder that is to stand beside them, or whose first ones are re-ranked."""
    own = _own_scorer(Path(options.model))
    if options.baseline is None:
        return {"": own, "_bm25": bm25}
    encoder = load_model(options.baseline, trust_remote_code=options.trust_remote_code)
    first = BiEncoderScorer(each_text_once(encoder.encode_query), each_text_once(encoder.encode_document))
    if options.rerank_k is not None:
        scores = probabilities(own) if isinstance(own, CrossEncoderScorer) else own
        own = TwoStageScorer(first, scores, options.rerank_k, options.rerank_weight)
    return {"": own, "_bm25": bm25, "_bi_encoder": first}


def _own_scorer(folder: Path) -> Scorer:
    """Of an artifact, or of a checkpoint."""
    if not is_cross_encoder(folder):
        return ServedReranker(folder)
    model, tokenizer, facts = load_cross_encoder(folder)
    return CrossEncoderScorer(model.to(pick_device()), tokenizer, max_length=facts.max_length)


def _choice(options: argparse.Namespace, languages: Iterable[str] | None) -> Choice:
    chosen = tuple(languages) if languages else None
    return Choice(options.sets, chosen, options.threshold, options.queries, options.one_language)
