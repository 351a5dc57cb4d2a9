"""`python -m tests.training.optimisation.two_processes OUT`: the tiny stages, in one or several processes."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import torch

from tests.training.tiny import tiny_corpus, tiny_sentence_encoder
from training.config.run import ContrastiveConfig, StageConfig, StudentConfig, StudentStageConfig
from training.models.sentence_encoder import SentenceEncoder
from training.models.start import student_from_assistant
from training.optimisation import loop
from training.optimisation.batches import BatchStream
from training.optimisation.loop import Objective, train
from training.optimisation.processes import is_main_process, join_processes, on_main_process
from training.stages.objectives import (
    assistant_objective,
    bottleneck_objective,
    contrastive_objective,
    student_objective,
)
from training.stages.pairs import PairEncoder, TeacherLabels

PAIRS = 41
SETTINGS = {
    "assistant": StageConfig(pairs=2, bf16=False, learning_rate=1e-3),
    "bottleneck": StageConfig(pairs=2, bf16=False, learning_rate=1e-3, sparse_embeddings=True),
    "student": StudentStageConfig(
        pairs=2, bf16=False, learning_rate=1e-3, accumulation=2, source_share=0.5, token_weight=0.5
    ),
    "contrastive": ContrastiveConfig(
        pairs=2, bf16=False, learning_rate=1e-3, sparse_embeddings=True, validate_pairs=20
    ),
}


class OddRounds:
    """A round of all pairs, and one of a single pair whose two sides are one text: less than two processes share."""

    rounds = 2

    def __len__(self) -> int:
        return PAIRS + 1

    def round(self, index: int) -> np.ndarray:
        return np.random.default_rng(0).permutation(PAIRS) if index == 0 else np.array([PAIRS - 1])


def train_stages(out: Path) -> dict[str, SentenceEncoder]:
    """The four stages with odd batch sizes and English that pairs share; losses of every step in OUT/<stage>."""
    loop.LOG_STEPS = 1
    corpus, tokens = tiny_corpus(42)
    corpus = dataclasses.replace(corpus, english=np.arange(42, dtype=np.int32) // 2)
    corpus.other[PAIRS - 1] = corpus.english[PAIRS - 1]
    device = torch.device("cpu")
    pairs = PairEncoder(corpus, tokens, max_length=16, device=device)
    vectors = torch.nn.functional.normalize(torch.randn(42, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    teacher = TeacherLabels(vectors.numpy(), np.arange(42))
    frequency = np.bincount(tokens.ids, minlength=60)

    def student(seed: int) -> SentenceEncoder:
        shape = StudentConfig(bottleneck_size=4, unit_layers=2, recurrences=2)
        return student_from_assistant(tiny_sentence_encoder(seed=seed), shape, frequency, seed=0).eval()

    fixed = tiny_sentence_encoder(seed=5).requires_grad_(False)
    objectives: dict[str, Objective] = {
        "assistant": assistant_objective(tiny_sentence_encoder(), teacher, pairs),
        "bottleneck": bottleneck_objective(fixed, student(1), pairs),
        "student": student_objective(fixed, student(2), pairs, SETTINGS["student"]),
        "contrastive": contrastive_objective(student(3), teacher, pairs, SETTINGS["contrastive"]),
    }
    for name, objective in objectives.items():
        folder = out / name
        on_main_process(lambda folder=folder: folder.mkdir(parents=True))
        scores = iter([0.2, 0.9, 0.1])  # the main process alone asks for them
        train(
            objective,
            BatchStream(OddRounds(), pairs.pair_lengths, 7, seed=1, epoch_pairs=PAIRS),
            SETTINGS[name],
            folder,
            name=name,
            checkpoint_minutes=0.0,
            device=device,
            validate=lambda scores=scores: next(scores) if is_main_process() else 1 / 0,
        )
    return {name: objective.model for name, objective in objectives.items()}  # type: ignore[misc]


def main() -> None:
    join_processes()
    models = train_stages(Path(sys.argv[1]))
    rank = torch.distributed.get_rank()
    torch.save({name: model.state_dict() for name, model in models.items()}, Path(sys.argv[1]) / f"weights-{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
