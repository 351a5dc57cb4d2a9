"""The bare `session.run` loop: the throughput of the cores without a server.

A script, run in a server's environment and with its affinity: `floor.py MODEL_FOLDER TEXTS.json THREADS SECONDS` prints
one JSON object. TEXTS.json is an object of lists of texts. THREADS threads share one single-threaded session; each runs
one text at a time.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer  # type: ignore[import-untyped]

Run = Callable[[int], object]  # embeds the text at a position


def main(folder: Path, texts_file: Path, threads: int, seconds: float) -> dict[str, dict[str, float]]:
    """For each list: texts a second with and without tokenisation, and the median latency of a text on one thread (ms).

    Each loop runs for `seconds`, after one pass over the texts to warm up.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if "vnni" not in Path("/proc/cpuinfo").read_text():  # as in the service: otherwise vectors differ
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    max_length = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["max_length"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    lists = json.loads(texts_file.read_text(encoding="utf-8"))
    return {name: measure(session, tokenizer, texts, threads, seconds) for name, texts in lists.items()}


def measure(
    session: onnxruntime.InferenceSession, tokenizer: Tokenizer, texts: list[str], threads: int, seconds: float
) -> dict[str, float]:
    def feed(text: str) -> dict[str, np.ndarray]:
        input_ids_BL = np.asarray([tokenizer.encode(text).ids], dtype=np.int64)
        return {"input_ids": input_ids_BL, "attention_mask": np.ones_like(input_ids_BL)}

    feeds = [feed(text) for text in texts]
    for one in feeds:
        session.run(None, one)
    return {
        "texts_per_s": rate(lambda at: session.run(None, feeds[at]), len(texts), threads, seconds),
        "texts_per_s_tokenised": rate(lambda at: session.run(None, feed(texts[at])), len(texts), threads, seconds),
        "p50_ms": median_ms(lambda at: session.run(None, feeds[at]), len(texts), seconds),
        "tokens_per_text": float(np.mean([one["input_ids"].shape[1] for one in feeds])),
    }


def rate(run: Run, count: int, threads: int, seconds: float) -> float:
    """Calls a second of `threads` threads, which take positions in turn."""
    positions = itertools.cycle(range(count))
    lock = threading.Lock()
    done = [0] * threads
    started = time.perf_counter()

    def work(number: int) -> None:
        while time.perf_counter() - started < seconds:
            with lock:
                position = next(positions)
            run(position)
            done[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - started)


def median_ms(run: Run, count: int, seconds: float) -> float:
    times = list(_times(run, count, seconds))
    return sorted(times)[len(times) // 2] * 1000


def _times(run: Run, count: int, seconds: float) -> Iterator[float]:
    ends_at = time.perf_counter() + seconds
    for position in itertools.cycle(range(count)):
        started = time.perf_counter()
        if started > ends_at:
            return
        run(position)
        yield time.perf_counter() - started


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
