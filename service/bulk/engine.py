"""Embeds a stream of texts on all CPUs, in order, a bounded number ahead. Knows the encoder; knows no documents.

N texts, D dims
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.encoder import Encoded

EncodeAll = Callable[[Sequence[str]], list[Encoded]]

CHUNK = 64  # texts a thread takes at once: fewer hand-overs, texts of like lengths, and work for every thread


@dataclass(frozen=True)
class Embedded:
    """vectors: (N, D) float32, one a text, in order.  truncated: how many texts are longer than the model reads."""

    vectors_ND: npt.NDArray[np.float32]
    truncated: int


Vectors = Generator[Embedded, None, None]  # closing it gives up the texts that wait
Engine = Callable[[Iterable[Sequence[str]]], Vectors]  # batches of texts -> their vectors, in order


def threads_engine(encode_all: EncodeAll, *, workers: int, dim: int) -> Engine:
    """Some texts at a time on each of `workers` threads: the vectors that the service gives, to the bit.

    The engine raises what reading a batch or encoding one of its texts raises; texts that wait are then given up.
    """

    def run(batches: Iterable[Sequence[str]]) -> Vectors:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="bulk")
        ahead: deque[list[Future[list[Encoded]]]] = deque()
        try:
            for texts in batches:
                chunks = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
                ahead.append([pool.submit(encode_all, chunk) for chunk in chunks])
                while ahead and (_is_done(ahead[0]) or _behind_the_oldest(ahead) > 2 * workers):
                    yield _joined(ahead.popleft(), dim)
            while ahead:
                yield _joined(ahead.popleft(), dim)
        finally:
            pool.shutdown(cancel_futures=True)

    return run


def behind_prompt(engine: Engine, prompt: str) -> Engine:
    """The same engine for texts that go behind a prompt."""
    return lambda batches: engine([prompt + text for text in texts] for texts in batches)


def _is_done(chunks: Sequence[Future[list[Encoded]]]) -> bool:
    return all(chunk.done() for chunk in chunks)


def _behind_the_oldest(ahead: Sequence[Sequence[object]]) -> int:
    """Chunks that keep the threads busy while the oldest batch is waited for and written; an empty batch is one."""
    return sum(max(1, len(chunks)) for chunks in ahead) - max(1, len(ahead[0]))


def _joined(chunks: Sequence[Future[list[Encoded]]], dim: int) -> Embedded:
    encoded = [one for chunk in chunks for one in chunk.result()]
    vectors_ND = np.stack([one.vector for one in encoded]) if encoded else np.empty((0, dim), np.float32)
    return Embedded(vectors_ND, sum(one.truncated for one in encoded))
