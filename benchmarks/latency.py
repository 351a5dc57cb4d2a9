"""Prints the latency of embedding one text on one thread, including tokenisation.

python -m benchmarks.latency --data DIR [--model FOLDER]     DIR has eval/stsb/test/xx-xx.tsv; seconds; writes no files
"""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.language_bias import multi_way
from service.model.encoder import load_encoder
from service.settings import BUNDLED_MODEL

SENTENCES = 30  # a language
ROUNDS = 3


def main() -> None:
    """Embed the sentences one after the other, for several rounds after a warm-up."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/stsb/test")
    parser.add_argument("--model", type=Path, default=BUNDLED_MODEL, help="artifact folder; default: the bundled one")
    options = parser.parse_args()
    encoder = load_encoder(options.model)
    columns = multi_way(options.data / "eval/stsb/test", encoder.manifest.languages, SENTENCES)
    texts = [text for column in columns.values() for text in column]
    tokens = [encoder.encode(text).tokens for text in texts]
    took_ms = []
    for text in ROUNDS * texts:
        started_at = time.perf_counter()
        encoder.encode(text)
        took_ms.append(1000 * (time.perf_counter() - started_at))
    p50_ms, p99_ms = np.percentile(took_ms, [50, 99])
    model = encoder.manifest
    print(f"{model.name} {model.fingerprint[:12]}: {len(texts)} sentences of {len(columns)} languages")
    print(f"{np.mean(tokens):.1f} tokens on average; p50 {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms")


if __name__ == "__main__":
    main()
