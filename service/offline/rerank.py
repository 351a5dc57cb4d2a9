"""Scores passages against a query without a service. Knows models and threads; knows no queue and no file."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import numpy as np

from service.engine.pairs import encode_with, scored
from service.engine.scorers import PairScorer, ScoreArray, Scorer, Scoring, scoring_of
from service.model.encoder import Encoded, choose_encoder
from service.process.cpus import usable_cpus
from service.runtime import load_reranker
from service.settings import Settings

PASSAGES_AT_ONCE = 1024  # in memory


def score_all(query: str, passages: Iterable[str], settings: Settings, *, windows: bool) -> list[float]:
    """Return the score of each passage, in [0, 1], as POST /rerank does.

    Raises: StartError: the model is refused.  InferenceFailed: it failed on a passage.
    """
    scoring, encode = _models(settings)
    before = {scorer: [encode(text, True).vector for text in scorer.before(query)] for scorer in scoring.scorers}

    def best(scorer: Scorer, passage: str) -> ScoreArray:
        parts = scorer.windows(query, passage) if windows else [scorer.whole(query, passage)]
        vectors_ND = np.array([*before[scorer], *(encode(part, True).vector for part in parts)])
        best_1: ScoreArray = scorer.raw(vectors_ND).max(keepdims=True)
        return best_1

    def score(passage: str) -> float:
        scores_N, _ = scoring.scores([best(scorer, passage) for scorer in scoring.scorers])
        return float(scores_N[0])

    scores: list[float] = []
    waiting = iter(passages)
    with ThreadPoolExecutor(settings.workers or usable_cpus()) as threads:
        while batch := list(islice(waiting, PASSAGES_AT_ONCE)):
            scores += threads.map(score, batch)
    return scores


def _models(settings: Settings) -> tuple[Scoring, Callable[..., Encoded]]:
    """Return the scorers and what encodes for them. A re-ranker that scores alone needs no encoder."""
    reranker, weight = load_reranker(settings), settings.rerank_weight
    if reranker is not None and weight == "alone":
        return Scoring(None, PairScorer(reranker), weight), partial(scored, reranker)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    return scoring_of(encoder, reranker, weight), encode_with(encoder, reranker)
