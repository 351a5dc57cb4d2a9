"""The common inputs of both trainers: pairs, labels, and two models as checkpoints."""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from training.config.run import StudentConfig
from training.corpora.corpus import Corpus
from training.corpora.readers import find_pair_file, read_pair_file
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.models.start import assistant_from_base, student_from_assistant
from training.models.teacher import load_teacher
from training.stages.pairs import PairEncoder, TeacherLabels
from training.vocabulary.tokens import TokenStore

TEACHER = "sentence-transformers/all-MiniLM-L6-v2"
CPU = torch.device("cpu")
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # we train without dropout
STUDENT = StudentConfig(bottleneck_size=128, unit_layers=3, recurrences=2)


@dataclass(frozen=True)
class Bench:
    english: list[str]
    other: list[str]
    label_ND: np.ndarray
    pairs: PairEncoder
    folders: dict[str, Path]  # "assistant" and "student", as checkpoints
    batch_size: int
    max_length: int
    clock: Callable[[], float]

    @property
    def labels(self) -> TeacherLabels:
        return TeacherLabels(self.label_ND, np.arange(len(self.label_ND)))

    def model(self, name: str) -> SentenceEncoder:
        return load_sentence_encoder(self.folders[name], attention="eager").eval()


def prepare(options: argparse.Namespace, work: Path) -> tuple[Bench, float]:
    """Make the inputs; also returns the seconds that tokenising took."""
    found = []
    for folder in sorted(path for path in (options.data / "parallel").iterdir() if path.is_dir()):
        for language in options.languages.split(","):
            path = find_pair_file(options.data / "parallel", folder.name, language)
            if path is not None:
                found += list(read_pair_file(path, language))
    chosen = np.random.default_rng(0).permutation(len(found))[: options.steps * options.batch_size]
    english, other = ([found[index][side] for index in chosen] for side in (0, 1))
    teacher = load_teacher(TEACHER, device=CPU)
    started = time.perf_counter()
    rows = teacher.tokenizer(english + other, truncation=True, max_length=options.max_length)["input_ids"]
    tokenising_s = time.perf_counter() - started
    tokens = TokenStore.of(rows, pad_id=0)
    count = len(english)
    texts = {text: index for index, text in reversed(list(enumerate(english)))}  # a repeated text keeps its first index
    corpus = Corpus(
        texts=english + other,
        english_count=count,
        english=np.array([texts[text] for text in english], dtype=np.int32),
        other=np.arange(count, 2 * count, dtype=np.int32),
        languages=["mixed"],
        sources=["mixed"],
        language_code=np.zeros(count, dtype=np.uint16),
        source_code=np.zeros(count, dtype=np.uint16),
    )
    dim = int(teacher.get_embedding_dimension() or 0)
    assistant = assistant_from_base(teacher, dim=dim, normalized=True, pad_id=0, seed=0)
    frequency = np.bincount(tokens.ids, minlength=assistant.encoder.config.vocab_size)
    student = student_from_assistant(copy.deepcopy(assistant), STUDENT, frequency, seed=0)
    for name, model in (("assistant", assistant), ("student", student)):
        model.encoder.config.base |= NO_DROPOUT
        save_sentence_encoder(model, teacher.tokenizer, work / name, max_length=options.max_length)
    labels = teacher.encode(english, batch_size=64, show_progress_bar=False)
    pairs = PairEncoder(corpus, tokens, options.max_length, CPU)
    folders = {name: work / name for name in ("assistant", "student")}
    clock = time.process_time if options.cpu_seconds else time.perf_counter
    return Bench(english, other, labels, pairs, folders, options.batch_size, options.max_length, clock), tokenising_s
