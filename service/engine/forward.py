"""Encodes queued texts, alone or in shared forward passes, and caches their vectors."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from service.engine.batcher import Prepared
from service.engine.cache import VectorCache
from service.engine.fair_queue import Work
from service.engine.pairs import Input
from service.errors import InferenceFailed, ServiceError
from service.model.encoder import Encoded, Encoder, TextInput

Encode = Callable[[Input, bool], Encoded]


@dataclass(frozen=True)
class Finished:
    """A text's result. took_s: the time it took; for a shared pass, its share."""

    work: Work
    result: Encoded | ServiceError
    took_s: float


def encode_alone(work: Work, encode: Encode, cache: VectorCache | None) -> Finished:
    """Encode one text by itself. An exception becomes its result."""
    started_at = time.monotonic()
    try:
        result: Encoded | ServiceError = encode(work.text, work.truncate)
        if cache is not None and isinstance(result, Encoded):
            cache.put(work.text, result)
    except BaseException as exc:  # also a panic of the tokenizer: no text may end a worker
        result = failure_of(exc)
    return Finished(work, result, time.monotonic() - started_at)


def tokenise_all(works: Sequence[Work], encoder: Encoder) -> tuple[list[Prepared], list[Finished]]:
    """Tokenise texts. Return those ready for a pass and those that failed. If one fails, each is retried alone."""
    started_at = time.monotonic()
    try:
        texts = cast("list[TextInput]", [work.text for work in works])  # pairs share no pass
        tokenised = encoder.tokenise(texts, [work.truncate for work in works])
    except BaseException as exc:
        if len(works) == 1:
            return [], [Finished(works[0], failure_of(exc), time.monotonic() - started_at)]
        parts = [tokenise_all([work], encoder) for work in works]
        return [one for ready, _ in parts for one in ready], [one for _, failed in parts for one in failed]
    share_s = (time.monotonic() - started_at) / max(1, len(works))
    return [Prepared(work, tokens, share_s) for work, tokens in zip(works, tokenised, strict=True)], []


def encode_together(texts: Sequence[Prepared], encoder: Encoder, cache: VectorCache | None) -> list[Finished]:
    """Encode texts in one pass. If it fails, each is retried alone: perhaps only one is at fault."""
    if not texts:
        return []
    started_at = time.monotonic()
    try:
        encoded = encoder.run([one.tokens for one in texts])
        if cache is not None:
            for one, vector in zip(texts, encoded, strict=True):
                cache.put(one.work.text, vector)
    except BaseException as exc:
        if len(texts) > 1:
            return [finished for one in texts for finished in encode_together([one], encoder, cache)]
        return [Finished(texts[0].work, failure_of(exc), texts[0].took_s + time.monotonic() - started_at)]
    share_s = (time.monotonic() - started_at) / len(texts)
    return [Finished(one.work, vector, one.took_s + share_s) for one, vector in zip(texts, encoded, strict=True)]


def failure_of(exc: BaseException) -> ServiceError:
    """Return an exception as a ServiceError, whose message quotes nothing of the text."""
    if isinstance(exc, ServiceError):
        return exc
    failed = InferenceFailed(f"the encoder failed ({type(exc).__name__})")
    failed.__cause__ = exc
    return failed
