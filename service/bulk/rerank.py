"""Scores passages against a query without a service. Knows models and threads; knows no queue and no file."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import numpy as np

from service.engine.pairs import scored
from service.engine.scorers import CosineScorer, PairScorer, Scorer
from service.model.encoder import Encoded, choose_encoder
from service.process.cpus import usable_cpus
from service.runtime import load_reranker
from service.settings import Settings

PASSAGES_AT_ONCE = 1024  # that are in memory


def score_all(query: str, passages: Iterable[str], settings: Settings, *, windows: bool) -> list[float]:
    """The score of each passage, in [0, 1]: what POST /rerank answers.

    Raises: StartError: the model is refused.  InferenceFailed: it failed on a passage.
    """
    scorer, encode = _models(settings)
    before = [encode(text, True).vector for text in scorer.before(query)]

    def score(passage: str) -> float:
        parts = scorer.windows(query, passage) if windows else [scorer.whole(query, passage)]
        vectors_ND = np.array([*before, *(encode(part, True).vector for part in parts)])
        return float(scorer.scores(scorer.raw(vectors_ND)).max())

    found: list[float] = []
    waiting = iter(passages)
    with ThreadPoolExecutor(settings.workers or usable_cpus()) as threads:
        while some := list(islice(waiting, PASSAGES_AT_ONCE)):
            found += threads.map(score, some)
    return found


def _models(settings: Settings) -> tuple[Scorer, Callable[..., Encoded]]:
    """The re-ranker, without the encoder that it has no need of; else the encoder."""
    reranker = load_reranker(settings)
    if reranker is not None:
        return PairScorer(reranker), partial(scored, reranker)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    return CosineScorer(encoder), encoder.encode
