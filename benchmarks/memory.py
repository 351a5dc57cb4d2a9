"""Prints the resident memory of each part of a ready service, and the peak growth for one text.

python -m benchmarks.memory [FOLDER]      the bundled model, or another artifact folder; seconds; writes no files
"""

import argparse
import gc
from collections.abc import Callable
from pathlib import Path

from service.process import memory

MIB = 2**20


def added_by(name: str, load: Callable[[], object]) -> None:
    before = memory.resident_bytes()
    load()
    gc.collect()
    memory.return_free_memory()
    now = memory.resident_bytes()
    print(f"{name:32} {(now - before) / MIB:+7.1f} MiB {now / MIB:9.1f} MiB resident")


def peak_of(name: str, call: Callable[[], object]) -> None:
    gc.collect()
    memory.return_free_memory()
    print(f"{name:32} {memory.growth_during(call) / MIB:+7.1f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="artifact; default: the bundled model")
    options = parser.parse_args()
    print(f"{'python':32} {memory.resident_bytes() / MIB:+7.1f} MiB")
    for name in ("numpy", "onnxruntime", "tokenizers", "pydantic_settings", "fastapi", "uvicorn", "prometheus_client"):
        added_by(name, lambda name=name: __import__(name))  # type: ignore[misc]
    added_by("the service's own modules", lambda: __import__("service.api.server"))

    from service.model.encoder import Encoder, load_encoder
    from service.settings import BUNDLED_MODEL

    folder = options.folder or BUNDLED_MODEL
    encoders: list[Encoder] = []
    added_by("tokenizer, session", lambda: encoders.append(load_encoder(folder)))
    encoder = encoders[0]
    added_by("faiss (with the first document)", lambda: __import__("faiss"))
    encoder.give_back_unused()
    peak_of(f"a pass of {encoder.manifest.max_length} tokens, a pass of texts", encoder.run_longest)
    for unit in ("a man plays the guitar ", "\U0001f600", "!?.,", "\u5409\u4ed6"):
        for chars in (10_000, 100_000):
            text = (unit * (chars // len(unit) + 1))[:chars]
            peak_of(f"{chars} characters of {unit.strip()!a:.12}", lambda text=text: encoder.encode(text))  # type: ignore[misc]


if __name__ == "__main__":
    main()
