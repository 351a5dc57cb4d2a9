"""Times training steps of large word tables, with dense and sparse gradients: `python -m benchmarks.sparse_embeddings`.

A step embeds random tokens of a Zipfian vocabulary, runs backward, clips, and updates. Prints medians of CPU time.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
from torch import nn

from training.config.run import StageConfig
from training.optimisation.optimizer import Stepper, clip_gradients
from training.system.device import describe_hardware

WIDTH, TOKENS, STEPS = 384, 128 * 24, 7  # 64 pairs of 24 tokens a side


class Words(nn.Module):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, WIDTH)


def step_ms(vocab_size: int, *, is_sparse: bool) -> float:
    model = Words(vocab_size)
    stepper = Stepper(model, StageConfig(pairs=2, sparse_embeddings=is_sparse))
    generator = np.random.default_rng(0)
    times = []
    for _ in range(STEPS):
        ids = torch.from_numpy(np.minimum(generator.zipf(1.2, TOKENS), vocab_size) - 1)
        started = time.process_time()
        model.word_embeddings(ids).square().mean().backward()
        clip_gradients(stepper.parameters)
        stepper.step(1.0)
        times.append(1_000 * (time.process_time() - started))
    return statistics.median(times[2:])  # the first steps allocate


def main() -> None:
    print(f"{describe_hardware()}\n\n| V x {WIDTH} | dense, ms | sparse, ms |\n|---|--:|--:|")
    for vocab_size in (8_000, 32_000, 64_000, 120_000, 250_000):
        dense, sparse = (step_ms(vocab_size, is_sparse=is_sparse) for is_sparse in (False, True))
        print(f"| {vocab_size:,} | {dense:.1f} | {sparse:.1f} |", flush=True)


if __name__ == "__main__":
    main()
