"""What each step of a run does: reads the folders of earlier steps, fills its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer  # type: ignore[import-untyped]
from transformers import PreTrainedTokenizerFast

from training.batches import length_bucketed
from training.config import RunConfig
from training.corpora.mix import Corpus, build_corpus, sampling_plan
from training.corpora.readers import find_pair_file
from training.device import pick_device
from training.evaluation.report import TextEncoder, evaluate
from training.files import files_under, fingerprint_files, write_json_atomically
from training.lexical import bag_matrix, english_bags, prior_embeddings, solve_ridge
from training.loop import Objective, train
from training.pipeline import Step
from training.sentence import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.stages.assistant import assistant_objective
from training.stages.bottleneck import bottleneck_objective, student_from_assistant
from training.stages.config import StageConfig
from training.stages.contrastive import contrastive_objective
from training.stages.pairs import PairEncoder, TeacherLabels
from training.stages.start import assistant_from_teacher, check_shrinkable
from training.stages.student import student_objective
from training.summary import write_summary
from training.teacher import EmbeddingStore, embed_missing, load_teacher, teacher_identity
from training.tokenizer import train_tokenizer, wrap_tokenizer
from training.tokens import TokenStore, build_token_store

CHECKPOINT = "checkpoint"  # subfolder of a step that holds a sentence-transformers model


@dataclass(frozen=True)
class Run:
    """A configuration, where its text is, and where its results go. What several steps read is loaded once."""

    config: RunConfig
    data: Path
    out: Path

    @cached_property
    def device(self) -> torch.device:
        """Where tensors live."""
        return pick_device()

    @cached_property
    def corpus(self) -> Corpus:
        """All pairs."""
        return Corpus.load(self.out / "corpus" / "pairs.tsv")

    @cached_property
    def tokens(self) -> TokenStore:
        """Token ids of all texts."""
        return TokenStore.load(self.out / "tokens")

    def teacher_labels(self, plan: NDArray[np.int64]) -> TeacherLabels:
        """h_T(s) of every pair of a plan, computed now where no earlier stage or run has."""
        teacher = load_teacher(self.config.teacher, device=self.device)
        name = hashlib.sha256(teacher_identity(self.config.teacher).encode()).hexdigest()[:16]
        store = EmbeddingStore(self.out / "teacher" / name, dim=int(teacher.get_embedding_dimension() or 0))
        english = np.unique(self.corpus.english[plan])
        texts = [self.corpus.texts[index] for index in english]
        embed_missing(teacher, texts, store)
        row_of_text = np.full(len(self.corpus.texts), -1, dtype=np.int64)
        row_of_text[english] = store.rows(texts)
        return TeacherLabels(store.vectors(), row_of_text)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The new vocabulary."""
        path = self.out / "tokenizer" / "tokenizer.json"
        return wrap_tokenizer(path, max_length=self.config.student.max_length)

    def load(self, step: str) -> SentenceEncoder:
        """The encoder that a step left, dropout off: runs are short, and noise only slows them."""
        # On a CPU the fused attention has a slow backward: eager trains 1.6 times as fast on short sentences
        attention = "eager" if self.device.type == "cpu" else "sdpa"
        return load_sentence_encoder(self.out / step / CHECKPOINT, attention=attention).to(self.device).eval()

    def save(self, model: SentenceEncoder, folder: Path) -> None:
        """Leave an encoder for later steps."""
        max_length = self.config.student.max_length
        save_sentence_encoder(model.cpu(), self.tokenizer, folder / CHECKPOINT, max_length=max_length)

    def plan(self, pairs: int, *, purpose: int, language_exponent: float | None = None) -> NDArray[np.int64]:
        """Pair indices in training order; another `purpose` gives another order."""
        seed = self.config.seed * 1_000 + purpose
        return sampling_plan(self.corpus, self.config.corpus, pairs, seed=seed, language_exponent=language_exponent)

    def stage_plan(self, config: StageConfig, *, purpose: int) -> NDArray[np.int64]:
        """The pairs of a stage."""
        return self.plan(config.pairs or 2, purpose=purpose, language_exponent=config.language_exponent)

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def build_corpus(self, folder: Path) -> None:
        """Clean, deduplicate, cap, and keep evaluation sentences out."""
        build_corpus(self.config.corpus, self.config.languages, self.data, folder, seed=self.config.seed)

    def train_tokenizer(self, folder: Path) -> None:
        """A new vocabulary for these languages."""
        tokenizer = train_tokenizer(self.corpus, self.config.tokenizer, seed=self.config.seed)
        tokenizer.save(str(folder / "tokenizer.json"))

    def tokenize(self, folder: Path) -> None:
        """Token ids of every text."""
        tokenizer = Tokenizer.from_file(str(self.out / "tokenizer" / "tokenizer.json"))
        build_token_store(self.corpus.texts, tokenizer, folder, max_length=self.config.student.max_length)

    def start_lexically(self, folder: Path) -> None:
        """The assistant before training: the teacher's body, word embeddings by regression."""
        teacher = load_teacher(self.config.teacher, device=torch.device("cpu"))
        body = teacher[0].auto_model
        check_shrinkable(body.config, self.config.student)
        teacher_table_TH = body.get_input_embeddings().weight.detach()
        plan = self.plan(self.config.lexical.pairs, purpose=0)
        english = np.unique(self.corpus.english[plan])
        texts = np.concatenate([self.corpus.other[plan], english])
        sources = np.concatenate([self.corpus.english[plan], english])
        target_NH = english_bags([self.corpus.texts[index] for index in sources], teacher.tokenizer, teacher_table_TH)
        vocabulary = self.tokenizer.get_vocab()
        embeddings_VH = solve_ridge(
            bag_matrix(self.tokens, texts, len(vocabulary)),
            target_NH,
            prior_embeddings(vocabulary, teacher.tokenizer, teacher_table_TH),
            ridge=self.config.lexical.ridge,
            iterations=self.config.lexical.iterations,
        )
        pad_id = int(self.tokenizer.pad_token_id)
        assistant = assistant_from_teacher(teacher, embeddings_VH, pad_id=pad_id, seed=self.config.seed)
        self.save(assistant, folder)

    def train_assistant(self, folder: Path) -> None:
        """Stage 1."""
        assistant = self.load("start")
        config = self.config.assistant
        plan = self.stage_plan(config, purpose=1)
        objective = assistant_objective(assistant, self.teacher_labels(plan), self.pairs(config))
        self.train_and_save(objective, plan, config, folder)

    def align_bottleneck(self, folder: Path) -> None:
        """Stage 2, from the SVD start; `alignment.json` has the error before and after."""
        assistant = self.load("assistant")
        config = self.config.bottleneck
        frequency_V = np.bincount(self.tokens.ids, minlength=len(self.tokenizer))
        student = student_from_assistant(assistant, self.config.student, frequency_V).to(self.device).eval()
        pairs = self.pairs(config)
        objective = bottleneck_objective(assistant, student, pairs)
        sample = length_bucketed(self.plan(4_096, purpose=20), pairs.pair_lengths(), 128, seed=0)
        before = mean_loss(objective, sample)
        self.train_and_save(objective, self.stage_plan(config, purpose=2), config, folder)
        after = mean_loss(Objective(student.to(self.device), objective.losses), sample)
        write_json_atomically(folder / "alignment.json", {"svd": before, "trained": after})

    def train_student(self, folder: Path) -> None:
        """Stage 3."""
        assistant, student = self.load("assistant"), self.load("bottleneck")
        config = self.config.student_stage
        objective = student_objective(assistant.requires_grad_(False), student, self.pairs(config))
        self.train_and_save(objective, self.stage_plan(config, purpose=3), config, folder)

    def contrast(self, folder: Path) -> None:
        """Stage 4."""
        student = self.load("student")
        config = self.config.contrastive
        plan = self.stage_plan(config, purpose=4)
        objective = contrastive_objective(student, self.teacher_labels(plan), self.pairs(config), config)
        self.train_and_save(objective, plan, config, folder)

    def score(self, step: str) -> Callable[[Path], None]:
        """Measure what a step left."""

        def work(folder: Path) -> None:
            encode = TextEncoder(self.load(step), self.tokenizer, max_length=self.config.student.max_length)
            write_json_atomically(folder / "scores.json", evaluate(encode, self.data, self.config.languages))

        return work

    def finish(self, folder: Path) -> None:
        """The checkpoint to export: the last stage's model, with what its model card needs."""
        self.save(self.load("contrastive"), folder)
        write_summary(self.config, self.corpus, self.data, self.out, folder / CHECKPOINT)

    # ── shared by the stages ──────────────────────────────────────────────────────────────────────────────────────

    def pairs(self, config: StageConfig) -> PairEncoder:
        """Tensors for pairs, at a stage's length."""
        return PairEncoder(self.corpus, self.tokens, config.max_length, self.device)

    def train_and_save(
        self, objective: Objective[Any], plan: NDArray[np.int64], config: StageConfig, folder: Path
    ) -> None:
        """Train on a plan to its end and leave the model."""
        batches = length_bucketed(plan, self.pairs(config).pair_lengths(), config.batch_size, seed=self.config.seed)
        train(
            objective,
            batches,
            config,
            folder,
            name=folder.name,
            checkpoint_minutes=self.config.checkpoint_minutes,
            device=self.device,
        )
        assert isinstance(objective.model, SentenceEncoder)  # noqa: S101  (for the type checker)
        self.save(objective.model, folder)

    def steps(self) -> list[Step]:
        """All steps in order, each with the settings that its result depends on."""
        chain = [
            Step(
                "corpus",
                lambda c: {**asdict(c.corpus), "languages": c.languages, "seed": c.seed},
                ("data",),
                self.build_corpus,
            ),
            Step("tokenizer", lambda c: asdict(c.tokenizer), ("corpus",), self.train_tokenizer),
            Step("tokens", lambda c: {"max_length": c.student.max_length}, ("tokenizer",), self.tokenize),
            Step(
                "start",
                lambda c: {**asdict(c.lexical), "teacher": teacher_identity(c.teacher)},
                ("tokens", "corpus", "tokenizer"),
                self.start_lexically,
            ),
            Step("assistant", lambda c: stage_settings(c.assistant), ("start",), self.train_assistant),
            Step(
                "bottleneck",
                lambda c: {**stage_settings(c.bottleneck), "student": asdict(c.student)},
                ("assistant",),
                self.align_bottleneck,
            ),
            Step("student", lambda c: stage_settings(c.student_stage), ("bottleneck",), self.train_student),
            Step("contrastive", lambda c: stage_settings(c.contrastive), ("student",), self.contrast),
        ]
        steps: list[Step] = []
        for step in chain:
            steps.append(step)
            if step.name in self.config.evaluation.steps:
                steps.append(Step(f"{step.name}-scores", lambda _: {}, (step.name,), self.score(step.name)))
        scored = tuple(step.name for step in steps if step.name.endswith("-scores"))
        return [*steps, Step("final", lambda c: {"name": c.name}, ("contrastive", *scored), self.finish)]

    def data_fingerprint(self) -> str:
        """Identity of the text that the run reads: its own sources and languages, and all evaluation sets."""
        pairs = (
            find_pair_file(self.data / "parallel", source, language)
            for source in self.config.corpus.sources
            for language in self.config.languages
        )
        files = [path for path in pairs if path] + files_under(self.data / "eval")
        return fingerprint_files(files, relative_to=self.data)


def stage_settings(config: StageConfig) -> dict[str, Any]:
    """What a stage's result depends on. Options left unset do not count: a new one leaves finished runs valid."""
    return {name: value for name, value in asdict(config).items() if value is not None}


def mean_loss(objective: Objective[Any], batches: list[NDArray[np.int64]]) -> float:
    """The objective without training, over some batches."""
    with torch.no_grad():
        totals = [sum(value.item() for value in objective.losses(batch).values()) for batch in batches]
    return round(sum(totals) / len(totals), 5)
