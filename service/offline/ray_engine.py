"""Embeds a stream of texts on a Ray cluster, in order.

Every process loads the artifact and embeds as the service does: the vectors equal those of a single machine bit for
bit. The artifact's folder must exist under the same path on each node.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from service.errors import ArtifactError, CrossletError, InferenceFailed, ServiceError, StartError
from service.model.encoder import Encoded, Encoder
from service.offline.embedding import Chunk, EmbeddedStream, Engine, encode_each, in_order
from service.process.cpus import usable_cpus


@dataclass(frozen=True)
class Model:
    """What a process loads. It must have this fingerprint: on another CPU the fallback might be chosen."""

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
    """Encode texts in a process of Ray; a vector or an error for each."""
    return encode_each(_encoder_of(model).encode_all, texts)


@cache
def _encoder_of(model: Model) -> Encoder:
    from service.model.encoder import choose_encoder

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
