"""What the steps of a run share: configuration, folders, and inputs that several steps read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.config.run import RunConfig, Stage, StageConfig
from training.corpora.corpus import Corpus
from training.corpora.plan import SamplingPlan
from training.corpora.readers import files_of, find_pair_file
from training.errors import ConfigError
from training.evaluation.encoders import TextEncoder
from training.evaluation.lines import find_file
from training.evaluation.sts import DevScore
from training.models.labels import LabelSpace
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.models.teacher import (
    EmbeddingStore,
    drop_normalize,
    embed_missing,
    is_normalized,
    load_teacher,
    teacher_identity,
)
from training.optimisation.batches import Plan
from training.optimisation.processes import is_main_process, on_main_process
from training.stages.pairs import PairEncoder, TeacherLabels
from training.system.arrays import map_array
from training.system.device import pick_device
from training.system.files import files_under, fingerprint_files, wait_for
from training.vocabulary.tokens import TokenStore

CHECKPOINT = "checkpoint"  # subfolder of a step: a sentence-transformers model
LABEL_SPACE = "labels.npz"  # in the start's folder: maps the teachers' embeddings to labels, if labels differ from them
PURPOSES = {"lexical": 0, "assistant": 1, "bottleneck": 2, "student": 3, "contrastive": 4, "alignment": 20}


@dataclass(frozen=True)
class Run:
    """A configuration, its data folder and its output folder. Shared inputs are loaded once."""

    config: RunConfig
    data: Path
    out: Path

    @cached_property
    def scored(self) -> Path:
        """The folder whose `eval` is scored and never trained on: the data's, else the run's own held-out part."""
        return self.data if files_under(self.data / "eval") else self.out / "held-out"

    @cached_property
    def models(self) -> list[str]:
        """The steps that save a model, in order; each but the first starts from the one before."""
        if self.config.continue_from is not None:
            return ["start", *self.config.stages]
        later = [stage for stage in self.config.stages if stage != "assistant"]
        return ["start", *(["assistant"] if "assistant" in self.config.stages else []), "shrunk", *later]

    def before(self, step: str) -> str:
        """The step whose model this step starts from."""
        return self.models[self.models.index(step) - 1]

    @property
    def assistant(self) -> str:
        """The step that saves the assistant: stage 1, or the start if stage 1 is not trained."""
        return self.before("shrunk")

    @cached_property
    def device(self) -> torch.device:
        """The device that tensors live on."""
        return pick_device()

    @cached_property
    def corpus(self) -> Corpus:
        """All pairs of the corpus."""
        return Corpus.load(self.out / "corpus")

    @cached_property
    def tokens(self) -> TokenStore:
        """Token ids of all texts."""
        return TokenStore.load(self.out / "tokens")

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer that assistant and student share."""
        max_length = self.config.student.max_length
        tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(
            str(self.out / "tokenizer"), model_max_length=max_length
        )
        return tokenizer

    def load_base(self) -> SentenceTransformer:
        """The encoder that the assistant starts from, on the CPU.

        Raises: ConfigError: it has no transformer, or its tokenizer cannot be rebuilt or pruned.
        """
        name = self.config.base or self.config.teacher
        base = self._load(name, torch.device("cpu"))
        if not hasattr(base[0], "auto_model"):
            raise ConfigError(f"base {name} has no transformer to start from; name another one")
        if not base.tokenizer.is_fast:
            raise ConfigError(f"base {name} has a tokenizer without a tokenizer.json (it is not a fast one)")
        if base.tokenizer.pad_token_id is None:
            raise ConfigError(f"base {name} has a tokenizer without a padding token")
        return base

    @cached_property
    def label_shape(self) -> tuple[int, bool]:
        """Dimensions of a label, and whether it has unit length."""
        teachers = [self._load_teacher(name, torch.device("cpu")) for name in self.config.teachers]
        dims = sum(int(teacher.get_embedding_dimension() or 0) for teacher in teachers)
        if not self.config.has_label_space:
            return dims, is_normalized(teachers[0])
        wanted = self.config.labels.dim
        if wanted is not None and wanted > dims:
            raise ConfigError(f"labels.dim is {wanted}; the teachers have {dims} dimensions together")
        return wanted or dims, True

    def _load(self, name: str, device: torch.device) -> SentenceTransformer:
        return load_teacher(name, device=device, trust_remote_code=self.config.trust_remote_code)

    def _load_teacher(self, name: str, device: torch.device) -> SentenceTransformer:
        teacher = self._load(name, device)
        return drop_normalize(teacher) if self.config.labels.raw else teacher

    def load(self, step: str) -> SentenceEncoder:
        """Load the encoder that a step saved, with dropout off; a stage switches it on if configured."""
        # On a CPU the backward pass of fused attention is slow: eager trains 1.6 times as fast on short sentences
        attention = "eager" if self.device.type == "cpu" else "sdpa"
        return load_sentence_encoder(self.out / step / CHECKPOINT, attention=attention).to(self.device).eval()

    def save(self, model: SentenceEncoder, folder: Path) -> None:
        """Save an encoder for later steps."""
        max_length = self.config.student.max_length
        save_sentence_encoder(model.cpu(), self.tokenizer, folder / CHECKPOINT, max_length=max_length)

    def plan(self, pairs: int, *, purpose: str, stage: StageConfig | None = None) -> SamplingPlan:
        """Sample pairs, in training order; each `purpose` has its own random order."""
        stage = stage or StageConfig()
        return SamplingPlan(
            self.corpus,
            self.config.corpus,
            pairs,
            seed=(self.config.seed if stage.seed is None else stage.seed) * 1_000 + PURPOSES[purpose],
            language_exponent=stage.language_exponent,
            sources=stage.sources,
        )

    def stage_plan(self, name: Stage) -> SamplingPlan:
        """The pairs that a stage draws, in training order."""
        stage = self.config.stage(name)
        epochs = stage.epochs
        pairs = stage.pairs or 0 if epochs is None else max(2, round(epochs * self.corpus.count(stage.sources)))
        return self.plan(pairs, purpose=name, stage=stage)

    def pair_encoder(self, config: StageConfig) -> PairEncoder:
        """The encoder of pairs, at the stage's maximum length."""
        return PairEncoder(self.corpus, self.tokens, config.max_length, self.device)

    def teacher_labels(self, plan: Plan) -> TeacherLabels:
        """h_T(s) of every pair of a plan, from the cache, or computed now by the main process."""
        is_drawn = np.zeros(self.corpus.english_count, dtype=np.bool_)
        for index in range(plan.rounds):
            is_drawn[self.corpus.english[plan.round(index)]] = True
        english = np.flatnonzero(is_drawn)
        embedded = [self._teacher_embeddings(name, english) for name in self.config.teachers]
        row_of_text = np.full(self.corpus.english_count, -1, dtype=np.int64)
        if not self.config.has_label_space:
            ((vectors, row_of_text[english]),) = embedded
            return TeacherLabels(vectors, row_of_text)
        space, path = LabelSpace.load(self.out / "start" / LABEL_SPACE), self.out / "labels.npy"
        on_main_process(lambda: space.write([own for own, _ in embedded], [rows for _, rows in embedded], path))
        row_of_text[english] = np.arange(len(english))
        return TeacherLabels(map_array(path).reshape(len(english), -1), row_of_text)

    def sample_embeddings(self, english: NDArray[np.int64]) -> list[NDArray[np.float32]]:
        """Each teacher's embeddings of a few English texts: (N, D_i) each."""
        embedded = (self._teacher_embeddings(name, english) for name in self.config.teachers)
        return [vectors[rows] for vectors, rows in embedded]

    def _teacher_embeddings(
        self, name: str, english: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """A teacher's embeddings, (N, D), and each text's row in them."""
        raw = " raw" if self.config.labels.raw else ""
        identity = teacher_identity(name) + raw + ("" if self.config.bf16 else " float32")
        folder = self.out / "teacher" / hashlib.sha256(identity.encode()).hexdigest()[:16]

        def texts() -> Iterator[str]:
            return (self.corpus.texts[int(index)] for index in english)

        teacher = self._load_teacher(name, self.device)
        dim = int(teacher.get_embedding_dimension() or 0)
        with wait_for(folder) if is_main_process() else nullcontext():  # jobs of an ablation share the store
            on_main_process(
                lambda: embed_missing(
                    teacher, texts(), EmbeddingStore(folder, dim=dim), total=len(english), bf16=self.config.bf16
                )
            )
            store = EmbeddingStore(folder, dim=dim)
        return store.vectors(), store.rows(texts())

    def text_encoder(self, model: SentenceEncoder) -> TextEncoder:
        """Encodes texts at the student's maximum length."""
        return TextEncoder(model, self.tokenizer, max_length=self.config.student.max_length, bf16=self.config.bf16)

    def validation(self, model: SentenceEncoder) -> Callable[[], dict[str, float]]:
        """A function that scores a model in training on the dev set, by language pair."""
        encode = self.text_encoder(model)
        score = DevScore(
            self.scored,
            self.config.scored_languages,
            dev=self.config.dev_folder,
            rows=self.config.evaluation.dev_rows,
        )
        return lambda: score.by_pair(encode)

    def data_fingerprint(self) -> str:
        """Fingerprint of the text that the run reads: its sources in its languages, and all evaluation sets."""
        pairs = (
            find_pair_file(self.data / "parallel", source, language)
            for source in self.config.corpus.sources
            for language in self.config.languages
        )
        files = [file for path in pairs if path for file in files_of(path)] + files_under(self.data / "eval")
        if self.config.tokenizer.kind == "pruned":
            files += [file for name in self.config.tokenizer.mono for file in files_under(self.data / "mono" / name)]
        if "passages" in self.config.stages:
            names = [*self.config.passages.sets, *self.config.passages.measured]
            files += [path for name in names if (path := find_file(self.data / "qa" / f"{name}.jsonl"))]
        return fingerprint_files(files, relative_to=self.data)
