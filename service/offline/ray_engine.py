"""Embeds a stream of texts on a Ray cluster, in order.

Every actor loads the artifact and embeds as the service does: the vectors equal those of a single machine bit for bit.
The artifact's folder must exist under the same path on each node.

N texts of a round, D dims
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import ArtifactError, CrossletError, InferenceFailed, StartError
from service.model.encoder import Encoded
from service.offline.embedding import Embedded, EmbeddedStream, Engine, encode_each
from service.process.cpus import usable_cpus

ACTOR_TEXTS = 64  # texts an actor gets at once
ROUND_TEXTS = 4096  # per actor and round: minutes of work, against seconds to start an actor


@dataclass(frozen=True)
class Model:
    """What an actor loads. It must have this fingerprint: on another CPU the fallback might be chosen."""

    folder: Path
    fallback: Path | None
    fingerprint: str
    dim: int


class RayWorker:
    """The encoder in an actor of its own process."""

    def __init__(self, model: Model) -> None:
        from service.model.encoder import choose_encoder

        self._encoder = choose_encoder(model.folder, model.fallback).encoder
        fingerprint = self._encoder.manifest.fingerprint
        if fingerprint != model.fingerprint:
            raise ArtifactError(
                f"{model.folder} is model {fingerprint[:12]} on a node, but {model.fingerprint[:12]} here"
            )

    def __call__(self, batch: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return vectors by the texts' positions; for a text that failed, zeros and an error."""
        results = encode_each(self._encoder.encode_all, [str(text) for text in batch["text"]])
        nothing_D = np.zeros(self._encoder.manifest.dim, np.float32)
        return {
            "position": batch["position"],
            "vector": np.stack([result.vector if isinstance(result, Encoded) else nothing_D for result in results]),
            "truncated": np.array([isinstance(result, Encoded) and result.truncated for result in results]),
            "error": np.array(["" if isinstance(result, Encoded) else str(result) for result in results]),
        }


def ray_engine(model: Model) -> Engine:
    """Return an engine of one actor per CPU, on RAY_ADDRESS's cluster or on a Ray instance started on this machine.

    Raises (when run): StartError: Ray is not installed or cannot be reached.  InferenceFailed: an actor raised.
    """

    def run(batches: Iterable[Sequence[str]]) -> EmbeddedStream:
        actors = _start()
        for round_ in _rounds(batches, ROUND_TEXTS * actors):
            yield from _embed(round_, model, actors)

    return run


def _start() -> int:
    """Connect to Ray. Return the number of its CPUs."""
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as exc:
        raise StartError("--engine ray needs Ray: `make setup-dev` in a checkout installs it") from exc
    own = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": usable_cpus(), "include_dashboard": False}
    try:
        ray.init(ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR", **own)
    except Exception as exc:  # Ray raises many types, a bare Exception if its processes are slow to start
        raise StartError(f"Ray cannot be used ({str(exc).splitlines()[0]}); RAY_ADDRESS names a cluster") from exc
    ray.data.DataContext.get_current().enable_progress_bars = False  # we show our own
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _rounds(batches: Iterable[Sequence[str]], size: int) -> Iterator[list[Sequence[str]]]:
    """Group batches into rounds of `size` texts or a little more, so that the stream is not held in memory whole."""
    round_: list[Sequence[str]] = []
    for texts in batches:
        round_.append(texts)
        if sum(map(len, round_)) >= size:
            yield round_
            round_ = []
    if round_:
        yield round_


def _embed(batches: Sequence[Sequence[str]], model: Model, actors: int) -> Iterator[Embedded]:
    """Embed one round. Each batch is yielded as soon as its vectors are complete, while the actors continue."""
    texts = [text for batch in batches for text in batch]
    vectors_ND = np.empty((len(texts), model.dim), np.float32)
    is_done_N, is_truncated_N = np.zeros(len(texts), bool), np.zeros(len(texts), bool)
    failed: dict[int, str] = {}
    given = start = 0
    for results in _results(texts, model, actors) if texts else [None]:
        if results is not None:
            positions = results["position"]
            vectors_ND[positions] = np.stack(list(results["vector"]))
            is_truncated_N[positions] = results["truncated"]
            is_done_N[positions] = True
            failed |= {
                int(position): str(error) for position, error in zip(positions, results["error"], strict=True) if error
            }
        while given < len(batches) and is_done_N[start : start + len(batches[given])].all():
            stop = start + len(batches[given])
            failed_here = {position - start: failed[position] for position in range(start, stop) if position in failed}
            kept_ND = np.delete(vectors_ND[start:stop], list(failed_here), axis=0)
            yield Embedded(kept_ND, np.flatnonzero(is_truncated_N[start:stop]).tolist(), failed_here)
            given, start = given + 1, stop


def _results(texts: Sequence[str], model: Model, actors: int) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """Yield the actors' results as they arrive."""
    import ray

    blocks = -(-len(texts) // ACTOR_TEXTS)
    rows = [{"position": position, "text": text} for position, text in enumerate(texts)]
    embedded = ray.data.from_items(rows, override_num_blocks=blocks).map_batches(
        RayWorker,
        fn_constructor_kwargs={"model": model},
        batch_size=ACTOR_TEXTS,
        num_cpus=1,
        compute=ray.data.ActorPoolStrategy(size=min(actors, blocks)),
    )
    try:
        yield from embedded.iter_batches(batch_size=None, batch_format="numpy")
    except ray.exceptions.RayError as exc:
        raise InferenceFailed(f"an actor of Ray failed ({_cause(exc)})") from exc


def _cause(exc: BaseException) -> str:
    """Return the message of our own error, else only the type: Ray's messages quote rows, and so texts."""
    while exc.__cause__ is not None:
        exc = exc.__cause__
    return str(exc) if isinstance(exc, CrossletError) else type(exc).__name__
