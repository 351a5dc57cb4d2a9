"""Embeds a stream of texts, in order, reading a bounded number of batches ahead.

The engine is threads of this process, or processes of a Ray cluster. Each loads the artifact and embeds as the service
does: vectors equal those of a single machine bit for bit.

N texts, D dims
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.engine.pool import failure_of
from service.errors import ArtifactError, CrossletError, InferenceFailed, ServiceError, StartError
from service.model.artifact import Manifest
from service.model.encoder import Encoded, Encoder, choose_encoder
from service.model.spaces import stored_as
from service.process.cpus import usable_cpus
from service.settings import Settings

EncodeAll = Callable[[Sequence[str]], list[Encoded]]
Chunk = Future[list[Encoded | ServiceError]]  # of some texts of a batch

CHUNK = 64  # texts a worker takes at once: few hand-overs, similar lengths to batch, and work for every worker


@dataclass(frozen=True)
class Embedded:
    """The vectors of one batch of texts.

    vectors_ND: (N, D) float32, of the texts that did not fail, in order.  failed: position -> reason.
    truncated: positions of the texts longer than the model reads.
    """

    vectors_ND: npt.NDArray[np.float32]
    truncated: Sequence[int]
    failed: Mapping[int, str] = field(default_factory=dict)


EmbeddedStream = Generator[Embedded, None, None]  # closing it drops the waiting texts
Engine = Callable[[Iterable[Sequence[str]]], EmbeddedStream]  # batches of texts -> their vectors, in order


def load_stored_model(
    settings: Settings, engine: str = "threads", *, for_queries: bool = False
) -> tuple[Encoder, Manifest, Engine]:
    """Load the model. Return its encoder, its manifest in the documents' space, and the engine for that space.

    engine: threads or ray.  for_queries: prepend the prompt of queries, not of documents.

    Raises: ArtifactError: the model is refused, or has no such space.
    """
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    prompt = encoder.prompts.query if for_queries else encoder.prompts.document
    return encoder, stored_as(encoder.manifest, settings.space), stored_engine(engine, encoder, settings, prompt=prompt)


def engine_of(name: str, encoder: Encoder, settings: Settings, *, prompt: str) -> Engine:
    """Return the engine of that name (threads or ray) for the encoder's model, prepending `prompt` to each text."""
    manifest, fallback = encoder.manifest, settings.fallback_model
    if name == "ray":
        # Absolute paths: the processes have another working directory.
        folder, fallback = settings.model.absolute(), fallback and fallback.absolute()
        engine = ray_engine(Model(folder, fallback, manifest.fingerprint, manifest.dim))
    else:
        engine = threads_engine(encoder.encode_all, workers=settings.workers or usable_cpus(), dim=manifest.dim)
    if not prompt:
        return engine
    return lambda batches: engine([prompt + text for text in texts] for texts in batches)


def stored_engine(name: str, encoder: Encoder, settings: Settings, *, prompt: str) -> Engine:
    """Return the engine as `engine_of` does, with its vectors in the documents' space, which the model must have."""
    engine = engine_of(name, encoder, settings, prompt=prompt)
    if not settings.space:
        return engine
    space = encoder.spaces.maps[settings.space]

    def run(batches: Iterable[Sequence[str]]) -> EmbeddedStream:
        with closing(engine(batches)) as embedded:
            for batch in embedded:
                yield replace(batch, vectors_ND=space(batch.vectors_ND))

    return run


def threads_engine(encode_all: EncodeAll, *, workers: int, dim: int) -> Engine:
    """Return an engine of `workers` threads. Its vectors equal the service's bit for bit.

    If reading a batch raises, so does the engine; waiting texts are dropped.
    """

    def run(batches: Iterable[Sequence[str]]) -> EmbeddedStream:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="embedding")

        def submit(texts: Sequence[str]) -> Chunk:
            return pool.submit(encode_each, encode_all, texts)

        try:
            yield from in_order(batches, submit, workers=workers, dim=dim)
        finally:
            pool.shutdown(cancel_futures=True)

    return run


def in_order(
    batches: Iterable[Sequence[str]], submit: Callable[[Sequence[str]], Chunk], *, workers: int, dim: int
) -> EmbeddedStream:
    """Yield the vectors of each batch. submit: has at most CHUNK texts encoded by one of the workers."""
    ahead: deque[list[Chunk]] = deque()
    for texts in batches:
        ahead.append([submit(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK)])
        while ahead:
            # What keeps workers busy while the oldest batch is written; an empty batch counts as one.
            after_first = sum(max(1, len(later)) for later in list(ahead)[1:])
            if after_first <= 2 * workers and not all(chunk.done() for chunk in ahead[0]):
                break
            yield _joined(ahead.popleft(), dim)
    while ahead:
        yield _joined(ahead.popleft(), dim)


def encode_each(encode_all: EncodeAll, texts: Sequence[str]) -> list[Encoded | ServiceError]:
    """Encode texts; return a vector or an error for each. If `encode_all` raises, retry each text alone.

    Raises: MemoryError: that is not the fault of a text.
    """
    try:
        return list(encode_all(texts))
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as exc:  # as in `engine/pool.py`: a panic of the tokenizer, too
        if len(texts) == 1:
            return [failure_of(exc)]
        return [result for text in texts for result in encode_each(encode_all, [text])]


def _joined(chunks: Sequence[Chunk], dim: int) -> Embedded:
    results = [result for chunk in chunks for result in chunk.result()]
    failed = {position: str(result) for position, result in enumerate(results) if isinstance(result, ServiceError)}
    encoded = [result for result in results if isinstance(result, Encoded)]
    vectors_ND = np.stack([result.vector for result in encoded]) if encoded else np.empty((0, dim), np.float32)
    truncated = [place for place, result in enumerate(results) if isinstance(result, Encoded) and result.truncated]
    return Embedded(vectors_ND, truncated, failed)


@dataclass(frozen=True)
class Model:
    """What a process of Ray loads, from the same path on each node.

    It must have this fingerprint: on another CPU the fallback might be chosen.
    """

    folder: Path
    fallback: Path | None
    fingerprint: str
    dim: int


def ray_engine(model: Model) -> Engine:
    """Return an engine of one process per CPU, on RAY_ADDRESS's cluster or on a Ray instance started on this machine.

    Raises (when run): StartError: Ray is not installed or cannot be reached.  InferenceFailed: a process failed.
    """

    def run(batches: Iterable[Sequence[str]]) -> EmbeddedStream:
        ray = _connect()
        encode, workers = ray.remote(num_cpus=1)(_encode), max(1, int(ray.cluster_resources().get("CPU", 1)))

        def submit(texts: Sequence[str]) -> Chunk:
            future: Chunk = encode.remote(model, texts).future()
            return future

        with closing(in_order(batches, submit, workers=workers, dim=model.dim)) as embedded:
            try:
                yield from embedded
            except ray.exceptions.RayError as exc:
                raise InferenceFailed(f"a process of Ray failed ({_cause(exc)})") from exc

    return run


def _connect() -> Any:
    try:
        import ray
    except ModuleNotFoundError as exc:
        raise StartError("--engine ray needs Ray: `make setup-dev` in a checkout installs it") from exc
    own = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": usable_cpus(), "include_dashboard": False}
    try:
        ray.init(ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR", **own)
    except Exception as exc:  # Ray raises many types, a bare Exception if its processes are slow to start
        raise StartError(f"Ray cannot be used ({str(exc).splitlines()[0]}); RAY_ADDRESS names a cluster") from exc
    return ray


def _encode(model: Model, texts: Sequence[str]) -> list[Encoded | ServiceError]:
    return encode_each(_encoder_of(model).encode_all, texts)


@cache
def _encoder_of(model: Model) -> Encoder:
    encoder = choose_encoder(model.folder, model.fallback).encoder
    fingerprint = encoder.manifest.fingerprint
    if fingerprint != model.fingerprint:
        raise ArtifactError(f"{model.folder} is model {fingerprint[:12]} on a node, but {model.fingerprint[:12]} here")
    return encoder


def _cause(exc: BaseException) -> str:
    """Return the message of our own error, else only the type: Ray's messages quote arguments, and so texts."""
    while (cause := getattr(exc, "cause", None) or exc.__cause__) is not None:
        exc = cause
    return str(exc) if isinstance(exc, CrossletError) else type(exc).__name__
