"""What the steps of a run share: its configuration, its folders, and what several of them read. Trains nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.config import RunConfig, Stage
from training.corpora.corpus import Corpus
from training.corpora.plan import SamplingPlan
from training.corpora.readers import files_of, find_pair_file
from training.device import pick_device
from training.embedding_store import EmbeddingStore
from training.errors import ConfigError
from training.evaluation.dev import DevScore
from training.evaluation.encoders import TextEncoder
from training.files import files_under, fingerprint_files
from training.processes import on_main_process
from training.sentence import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.stages.config import ContrastiveConfig, StageConfig
from training.stages.pairs import PairEncoder, TeacherLabels
from training.stages.words import WordTeacher
from training.teacher import embed_missing, load_teacher, teacher_identity
from training.tokens import TokenStore
from training.word_links import WordLinks

CHECKPOINT = "checkpoint"  # subfolder of a step that holds a sentence-transformers model
PURPOSES = {"lexical": 0, "assistant": 1, "bottleneck": 2, "student": 3, "contrastive": 4, "alignment": 20}


@dataclass(frozen=True)
class Run:
    """A configuration, where its text is, and where its results go. What several steps read is loaded once."""

    config: RunConfig
    data: Path
    out: Path

    @cached_property
    def models(self) -> list[str]:
        """The steps that leave a model, in order; each but the first starts from the one before."""
        later = [stage for stage in self.config.stages if stage != "assistant"]
        return ["start", *(["assistant"] if "assistant" in self.config.stages else []), "shrunk", *later]

    def before(self, step: str) -> str:
        """The model that a step starts from."""
        return self.models[self.models.index(step) - 1]

    @property
    def assistant(self) -> str:
        """The step that leaves the assistant: stage 1, or the start where that is not trained."""
        return self.before("shrunk")

    @cached_property
    def device(self) -> torch.device:
        """Where tensors live."""
        return pick_device()

    @cached_property
    def corpus(self) -> Corpus:
        """All pairs."""
        return Corpus.load(self.out / "corpus")

    @cached_property
    def tokens(self) -> TokenStore:
        """Token ids of all texts."""
        return TokenStore.load(self.out / "tokens")

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The assistant's and student's."""
        max_length = self.config.student.max_length
        tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(
            str(self.out / "tokenizer"), model_max_length=max_length
        )
        return tokenizer

    def load_base(self) -> SentenceTransformer:
        """The encoder that the assistant starts from, on the CPU.

        Raises: ConfigError: it has no transformer, or no tokenizer of which new ones can be made.
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

    def load_teacher(self, device: torch.device) -> SentenceTransformer:
        """The frozen teacher."""
        return self._load(self.config.teacher, device)

    def _load(self, name: str, device: torch.device) -> SentenceTransformer:
        return load_teacher(name, device=device, trust_remote_code=self.config.trust_remote_code)

    def load(self, step: str) -> SentenceEncoder:
        """The encoder that a step left, dropout off: runs are short, and noise only slows them."""
        # On a CPU the fused attention has a slow backward: eager trains 1.6 times as fast on short sentences
        attention = "eager" if self.device.type == "cpu" else "sdpa"
        return load_sentence_encoder(self.out / step / CHECKPOINT, attention=attention).to(self.device).eval()

    def save(self, model: SentenceEncoder, folder: Path) -> None:
        """Leave an encoder for later steps."""
        max_length = self.config.student.max_length
        save_sentence_encoder(model.cpu(), self.tokenizer, folder / CHECKPOINT, max_length=max_length)

    def plan(self, pairs: int, *, purpose: str, stage: StageConfig | None = None) -> SamplingPlan:
        """Which pairs, in training order; another `purpose` gives another order."""
        stage = stage or StageConfig()
        return SamplingPlan(
            self.corpus,
            self.config.corpus,
            pairs,
            seed=(self.config.seed if stage.seed is None else stage.seed) * 1_000 + PURPOSES[purpose],
            language_exponent=stage.language_exponent,
            sources=stage.sources,
        )

    def stage_pairs(self, name: Stage) -> int:
        """How many pairs a stage draws, repeats counted."""
        stage = self.config.stage(name)
        if stage.epochs is None:
            return stage.pairs or 0
        return max(2, round(stage.epochs * self.corpus.count(stage.sources)))

    def stage_plan(self, name: Stage) -> SamplingPlan:
        """The pairs of a stage."""
        return self.plan(self.stage_pairs(name), purpose=name, stage=self.config.stage(name))

    def pair_encoder(self, config: StageConfig) -> PairEncoder:
        """Tensors for pairs, at a stage's length."""
        return PairEncoder(self.corpus, self.tokens, config.max_length, self.device)

    def teacher_labels(self, plan: SamplingPlan) -> TeacherLabels:
        """h_T(s) of every pair of a plan, computed now by the main process where no earlier stage or run has."""
        identity = teacher_identity(self.config.teacher)
        folder = self.out / "teacher" / hashlib.sha256(identity.encode()).hexdigest()[:16]
        is_drawn = np.zeros(self.corpus.english_count, dtype=np.bool_)
        for index in range(plan.rounds):
            is_drawn[self.corpus.english[plan.round(index)]] = True
        english = np.flatnonzero(is_drawn)

        def texts() -> Iterator[str]:
            return (self.corpus.texts[int(index)] for index in english)

        teacher = self.load_teacher(self.device)
        dim = int(teacher.get_embedding_dimension() or 0)
        on_main_process(lambda: embed_missing(teacher, texts(), EmbeddingStore(folder, dim=dim), total=len(english)))
        store = EmbeddingStore(folder, dim=dim)
        row_of_text = np.full(self.corpus.english_count, -1, dtype=np.int64)
        row_of_text[english] = store.rows(texts())
        return TeacherLabels(store.vectors(), row_of_text)

    def word_teacher(self, config: ContrastiveConfig) -> WordTeacher | None:
        """What the word loss needs, where a stage has it."""
        if config.word_weight is None:
            return None
        teacher = self.load_teacher(self.device)
        links = WordLinks.load(self.out / "links")
        return WordTeacher(teacher, self.corpus, links, config.max_length, config.word_weight)

    def validation(self, model: SentenceEncoder) -> Callable[[], float]:
        """Scores a model in training on the dev set."""
        encode = TextEncoder(model, self.tokenizer, max_length=self.config.student.max_length, bf16=True)
        score = DevScore(self.data, self.config.scored_languages)
        return lambda: score(encode)

    def data_fingerprint(self) -> str:
        """Identity of the text that the run reads: its own sources and languages, and all evaluation sets."""
        pairs = (
            find_pair_file(self.data / "parallel", source, language)
            for source in self.config.corpus.sources
            for language in self.config.languages
        )
        files = [file for path in pairs if path for file in files_of(path)] + files_under(self.data / "eval")
        return fingerprint_files(files, relative_to=self.data)
