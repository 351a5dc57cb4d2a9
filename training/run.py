"""What the steps of a run share: its configuration, its folders, and what several of them read. Trains nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.config import RunConfig, Stage
from training.corpora.mix import Corpus, sampling_plan
from training.corpora.readers import find_pair_file
from training.device import pick_device
from training.files import files_under, fingerprint_files
from training.sentence import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.stages.config import StageConfig
from training.stages.pairs import PairEncoder, TeacherLabels
from training.teacher import EmbeddingStore, embed_missing, load_teacher, teacher_identity
from training.tokens import TokenStore

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
        return Corpus.load(self.out / "corpus" / "pairs.tsv")

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
        """The encoder that the assistant starts from, on the CPU."""
        return load_teacher(self.config.base or self.config.teacher, device=torch.device("cpu"))

    def load(self, step: str) -> SentenceEncoder:
        """The encoder that a step left, dropout off: runs are short, and noise only slows them."""
        # On a CPU the fused attention has a slow backward: eager trains 1.6 times as fast on short sentences
        attention = "eager" if self.device.type == "cpu" else "sdpa"
        return load_sentence_encoder(self.out / step / CHECKPOINT, attention=attention).to(self.device).eval()

    def save(self, model: SentenceEncoder, folder: Path) -> None:
        """Leave an encoder for later steps."""
        max_length = self.config.student.max_length
        save_sentence_encoder(model.cpu(), self.tokenizer, folder / CHECKPOINT, max_length=max_length)

    def plan(self, pairs: int, *, purpose: str, stage: StageConfig | None = None) -> NDArray[np.int64]:
        """Pair indices in training order; another `purpose` gives another order."""
        stage = stage or StageConfig()
        seed = (self.config.seed if stage.seed is None else stage.seed) * 1_000 + PURPOSES[purpose]
        return sampling_plan(
            self.corpus, self.config.corpus, pairs, seed=seed, language_exponent=stage.language_exponent
        )

    def stage_pairs(self, name: Stage) -> int:
        """How many pairs a stage draws, repeats counted."""
        stage = self.config.stage(name)
        if stage.epochs is None:
            return stage.pairs or 0
        in_sources = len(self.corpus) if stage.sources is None else np.isin(self.corpus.source, stage.sources).sum()
        return max(2, round(stage.epochs * in_sources))

    def stage_plan(self, name: Stage) -> NDArray[np.int64]:
        """The pairs of a stage."""
        return self.plan(self.stage_pairs(name), purpose=name, stage=self.config.stage(name))

    def pair_encoder(self, config: StageConfig) -> PairEncoder:
        """Tensors for pairs, at a stage's length."""
        return PairEncoder(self.corpus, self.tokens, config.max_length, self.device)

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

    def data_fingerprint(self) -> str:
        """Identity of the text that the run reads: its own sources and languages, and all evaluation sets."""
        pairs = (
            find_pair_file(self.data / "parallel", source, language)
            for source in self.config.corpus.sources
            for language in self.config.languages
        )
        files = [path for path in pairs if path] + files_under(self.data / "eval")
        return fingerprint_files(files, relative_to=self.data)
