"""`python -m tests.training.small_job OUT [OPTIONS]`: one tiny stage behind the real command's signals and exits."""

import argparse
import resource
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch

import training.__main__ as command
from tests.training.tiny import Rounds, tiny_corpus, tiny_sentence_encoder
from training.config.run import CorpusConfig, RunConfig, SourceConfig, StageConfig
from training.optimisation.batches import BatchStream
from training.optimisation.loop import train
from training.pipeline.runner import Step, run_steps
from training.stages.objectives import assistant_objective
from training.stages.pairs import PairEncoder, TeacherLabels

ROUNDS = 60


def train_tiny(folder: Path, *, checkpoint_minutes: float = 60.0) -> None:
    """300 steps, then `weights.pt`. On one thread: on more, sums may be taken in another order under load."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    corpus, tokens = tiny_corpus(40)
    device = torch.device("cpu")
    pairs = PairEncoder(corpus, tokens, max_length=16, device=device)
    vectors = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)
    model = tiny_sentence_encoder()
    train(
        assistant_objective(model, TeacherLabels(vectors, np.arange(40)), pairs),
        BatchStream(Rounds(ROUNDS), pairs.pair_lengths, 8, seed=1, epoch_pairs=40),
        StageConfig(pairs=2),
        folder,
        name="assistant",
        checkpoint_minutes=checkpoint_minutes,
        device=device,
    )
    torch.save(model.state_dict(), folder / "weights.pt")
    torch.set_num_threads(threads)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--checkpoint-minutes", type=float, default=60.0)
    parser.add_argument("--file-size-limit", type=int, help="bytes: stands for a full disk")
    given = parser.parse_args()
    if given.file_size_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (given.file_size_limit, given.file_size_limit))

    def run_job(options: argparse.Namespace, _: object) -> None:
        config = RunConfig(languages=["de"], corpus=CorpusConfig(sources={"news": SourceConfig()}), stages=[])
        work = partial(train_tiny, checkpoint_minutes=given.checkpoint_minutes)
        step = Step("assistant", work, {}, ("data",), together=True)
        run_steps([step], config, options.out, data_fingerprint="d")

    command.run_job = run_job
    return command.main(["--config", "none", "--data", "none", "--out", given.out])


if __name__ == "__main__":
    sys.exit(main())
