"""The configuration of a training run, read from YAML. Constraints on one value are in its type."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from training.config.parsing import ConfigModel, build, read_yaml

Stage = Literal["assistant", "bottleneck", "student", "contrastive", "passages"]
STAGES: tuple[Stage, ...] = ("assistant", "bottleneck", "student", "contrastive", "passages")
PAPER_STAGES: tuple[Stage, ...] = STAGES[:4]
Model = Literal["start", "assistant", "shrunk", "bottleneck", "student", "contrastive", "passages"]
STSB_DEV = "stsb/dev"
BLOCK_SIZE = 32  # word-table weights that share a scale and a zero point (`round_words`, `export.quantization.tables`)

Seed = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
TextLength = Annotated[int, Field(ge=3)]  # tokens: [CLS], one more, [SEP]
Share = Annotated[float, Field(gt=0, le=1)]
AboveZero = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Beta = Annotated[float, Field(ge=0, lt=1)]
Terms = Literal["permissive", "share-alike", "copyleft", "other"]  # of a licence, as in the catalogue
Reduction = Literal["sum", "mean"]  # of a squared error over the dimensions of an embedding
ObjectiveName = Literal[
    "soft",  # Eq. (5)
    "bool",  # Eq. (8) of the authors' code: the diagonal is positive
    "bool_equal",  # Eq. (8) as printed: equal sentences are positive
    "ce",  # Eq. (9), mean over anchors
    "ce_sum",  # Eq. (9) as printed: sum over anchors; dwarfs Eq. (6)
    "ce_hard",  # Eq. (9) of the authors' code: the diagonal as labels; their mcl_weight is 0.01
    "none",  # Eq. (6) alone; Eq. (5) is logged
]


class SourceConfig(ConfigModel):
    """One corpus in the mix."""

    weight: AboveZero = 1.0
    """sampling weight among the sources of a language"""
    max_pairs: Count | None = None
    """per language; null: `corpus.max_pairs`"""
    dataset: str | None = None
    """the Hugging Face dataset to fetch it from; null: the catalogue's address"""


class CorpusConfig(ConfigModel):
    """All of the parallel text of a run."""

    sources: dict[str, SourceConfig] = Field(min_length=1)
    """by name: a folder of `parallel`"""
    max_pairs: Count | None = 12_000
    """per source and language; null: no cap"""
    language_exponent: float = 0.5
    """a language of n pairs is drawn in proportion to n ** exponent"""
    equal_files: bool = False
    """draw as often from each file (a source in a language), whatever its size, weight or language"""
    on_bad_line: Literal["stop", "skip"] = "stop"
    """what to do with an unreadable line; skip: count it and go on"""
    max_chars: int | None = 1_000
    """of the longer side, above which a pair is dropped; null: no limit"""
    max_length_ratio: float | None = 3.0
    """of longer to shorter side, in characters of English; null: no limit"""
    keep_repeats: bool = False
    """keep duplicate pairs and pairs with identical sides"""
    noise: Share | None = None
    """share of the pairs that come again with one side badly typed; null: none"""
    terms: Annotated[list[Terms], Field(min_length=1)] | None = None
    """licences of the text that is trained on; another is refused; null: any"""
    fetch: bool = False
    """first download the sources that the data folder lacks"""


class LabelConfig(ConfigModel):
    """How the embeddings of one or several teachers become a text's label (`training.models.labels`)."""

    beside: list[str] = Field(default=[])
    """further teachers: folders or hub names"""
    centred: bool = False
    """subtract each teacher's mean embedding"""
    dim: Count | None = None
    """dimensions of a label; null: those of all teachers together"""
    raw: bool = False
    """leave the teacher's Normalize module out, so that vectors keep their lengths; for one teacher alone"""

    @model_validator(mode="after")
    def _check_raw(self) -> Self:
        if self.raw and self != LabelConfig.model_construct(raw=True):
            raise ValueError("raw is set; beside, centred and dim make labels of unit length: leave it or them out")
        return self


class LoopConfig(ConfigModel):
    """How a stage trains. Set either `pairs` or `epochs`: its length."""

    pairs: Annotated[int, Field(ge=2)] | None = None
    """pairs to train on, repeats included"""
    epochs: AboveZero | None = None
    """passes over its sources"""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """pairs a batch, over all processes"""
    accumulation: Count = 1
    """batches an optimiser step; a contrastive loss compares within a batch"""
    learning_rate: NotNegative = 1e-4
    """the peak"""
    embedding_learning_rate: NotNegative | None = None
    """the peak for word embeddings; null: `learning_rate`"""
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """share of the pairs that rates rise over; then linear decay to zero"""
    cycles: Count = 1
    """how many times rates rise and fall; above 1: warm restarts"""
    average_cycles: Annotated[int, Field(ge=0)] = 0
    """average the weights at the last N cycle ends; N = cycles + 1 includes the initial weights; 0: off"""
    weight_decay: NotNegative = 0.0
    """of AdamW"""
    decay_biases: bool = False
    """weight decay of biases and LayerNorm, too; the authors' code spares them"""
    betas: list[Beta] = Field(default=[0.9, 0.98], min_length=2, max_length=2)
    """decay of Adam's two moments"""
    dropout: bool = False
    """train with the base's dropout"""
    sparse_embeddings: bool | None = None
    """update only rows that a batch uses; null: in tables over 16.8M weights"""
    bf16: bool = True
    """where the hardware supports it; false: float32. Labels and scores are float32 if every stage is"""
    validate_pairs: Count | None = None
    """a dev score every N pairs and at the end; null: no dev score"""

    @model_validator(mode="after")
    def _check_cycles(self) -> Self:
        if self.average_cycles > self.cycles + 1:
            raise ValueError(
                f"average_cycles is {self.average_cycles}; there are {self.cycles} cycle ends and the start"
            )
        return self


class StageConfig(LoopConfig):
    """A stage that trains on pairs of the corpus."""

    sources: Annotated[list[str], Field(min_length=1)] | None = None
    """the corpora it draws from; null: all"""
    language_exponent: float | None = None
    """null: `corpus.language_exponent`; below 0 favours thin languages"""
    seed: Seed | None = None
    """of its draw of pairs and their order; null: the run's"""
    bucketed: bool = True
    """batch pairs of similar length; false: in drawn order"""
    reduction: Reduction = "sum"
    """of the squared errors of Eqs. (2), (3), (4) and (6) over D"""
    max_length: TextLength = 64
    """tokens a text while training; at most the student's"""
    compile: bool = False
    """torch.compile the layers: 1.2 times as fast on a CPU, half a minute to start"""
    source_share: Share | None = None
    """share of a batch's English sides to train on; not in stage 2; null: all"""
    round_words: bool = False
    """train with word embeddings rounded as in a 4-bit export"""


class BottleneckConfig(StageConfig):
    """Stage 2."""

    pooled: bool = False
    """Eq. (3) on sentence means of the embedding outputs; false: token by token"""

    @model_validator(mode="after")
    def _check_sides(self) -> Self:
        if self.source_share is not None:
            raise ValueError("source_share is set; stage 2 learns from both sides of every pair: leave it out")
        return self


class StudentStageConfig(StageConfig):
    """Stage 3."""

    token_weight: AboveZero | None = None
    """weight of the distance between all token embeddings, added to Eq. (4); null: 0"""


class ContrastiveConfig(StageConfig):
    """Stage 4."""

    objective: ObjectiveName = "soft"
    """the contrastive loss"""
    mcl_weight: NotNegative = 1.0
    """weight of the contrastive loss against Eq. (6), which is D times larger with `reduction: sum`; Eq. (7) has 1"""
    temperature: AboveZero = 0.05
    """tau of Eq. (9)"""


class QuestionSet(ConfigModel):
    """Questions with the passages that answer them: `qa/<name>.jsonl` of the data folder."""

    questions: Count | None = None
    """at most, of a language; null: all"""


class PassagesConfig(StageConfig):
    """Stage 5, not in the paper: which passages answer a question, by a retrieval teacher (`training.passages`).

    It refuses `sources`, `reduction`, `compile` and `source_share`, which it does not read.
    """

    pairs: Annotated[int, Field(ge=2)] | None = 21_120
    """questions to train on, repeats included"""
    batch_size: Annotated[int, Field(ge=2)] = 192
    """questions a batch, all in one language"""
    learning_rate: NotNegative = 2e-4
    embedding_learning_rate: NotNegative | None = 0.0
    """0: words are frozen"""
    max_length: TextLength = 256
    """tokens of a passage"""
    bucketed: Literal[False] = False
    """batches are in one language, not of one length"""
    language_exponent: float | None = None
    """a language of n questions has turns in proportion to n ** exponent; null: 0, equal turns"""
    sets: dict[str, QuestionSet] = Field(default={})
    """by name: a file of `qa`"""
    measured: list[str] = Field(default=[])
    """files of `qa` that are measured on: their texts are not trained on"""
    teacher: str = "intfloat/multilingual-e5-small"
    """the retrieval model to learn from: folder or hub name"""
    hard: Annotated[int, Field(ge=2)] = 60
    """passages nearest to a question by the teacher, from which hard negatives are drawn"""
    negatives: Count = 2
    """hard negatives of a question in a batch"""
    teacher_temperature: AboveZero = 0.02
    """of the softmax of the teacher's cosines"""
    temperature: AboveZero = 0.05
    """of the softmax of the student's"""
    answer_weight: NotNegative = 0.3
    """weight of the cross-entropy on the answers"""
    kept_texts: Count = 80_000
    """sentences of the corpus, as many of each language, whose vectors shall stay"""
    kept: Count = 1_024
    """of these, a batch"""
    kept_weight: NotNegative = 20.0
    """weight of their distance from where they were"""
    strengths: Annotated[list[Share], Field(min_length=1)] = Field(default=[0.5, 0.75, 1.0])
    """how far to go from the weights before to the trained ones; the best on dev is kept"""

    @model_validator(mode="after")
    def _check_unread(self) -> Self:
        for name in ("sources", "reduction", "compile", "source_share"):
            if getattr(self, name) != StageConfig.model_fields[name].default:
                raise ValueError(f"{name} is set; stage 5 does not read it: leave it out")
        return self


class TokenizerConfig(ConfigModel):
    """The vocabulary of assistant and student."""

    kind: Literal["new", "pruned", "kept"] = "new"
    """BPE on the corpus; the base's pieces in use; all of the base's"""
    vocab_size: Annotated[int, Field(ge=10)] = 32_000
    """pieces, the most frequent ones; pruned: at most"""
    alphabet: Count = 5_000
    """new: single characters kept, most frequent first; rarer ones become [UNK]"""
    sentences: Count = 1_000_000
    """sampled from the corpus by `language_exponent`"""
    language_exponent: float = 0.3
    """a language of n texts is sampled in proportion to n ** exponent"""
    lowercase: bool = True
    """new: lowercase texts"""
    fill: bool = False
    """pruned: add the base's first pieces in the corpus's scripts, up to `vocab_size`"""
    mono: list[str] = Field(default=[])
    """pruned: folders under `mono/` with more text to count pieces in"""


class LexicalConfig(ConfigModel):
    """The lexical start: word embeddings of a new vocabulary, fitted to the base's (`training.models.lexical`)."""

    pairs: Count = 400_000
    """parallel pairs to fit on"""
    ridge: AboveZero = 1.0
    """weight of a token's prior embedding, in sentences"""
    iterations: int = 40
    """of conjugate gradients"""


class StudentConfig(ConfigModel):
    """The student's size."""

    bottleneck_size: Count | None = 128
    """B; null: no bottleneck, a V x H table"""
    bottleneck_start: Literal["svd", "random"] = "svd"
    """weighted SVD of the assistant's table; random, as in the paper"""
    unit_layers: Count = 3
    """M, layers of the recurrent unit"""
    layers: list[Annotated[int, Field(ge=0)]] | None = None
    """which M layers of the assistant, counted from 0; null: the first M"""
    recurrences: Count = 2
    """K, how many times the unit is applied; 1: no recurrence"""
    max_length: TextLength = 128
    """tokens, special tokens included"""

    @model_validator(mode="after")
    def _check_layers(self) -> Self:
        layers = self.layers
        if layers is not None and (len(layers) != self.unit_layers or sorted(set(layers)) != layers):
            raise ValueError(
                f"layers is {layers}; it must list {self.unit_layers} layers (unit_layers) in ascending order"
            )
        return self


class EvaluationConfig(ConfigModel):
    """What is scored, and after which steps."""

    steps: list[Model] = Field(default=["start", "assistant", "contrastive"])
    """steps that are scored: start, shrunk (the untrained student) or a stage"""
    languages: list[str] | None = None
    """null: the run's"""
    dev: str | None = None
    """dev set of `validate_pairs`: a folder under DIR/eval; null: stsb/dev"""
    dev_rows: Annotated[int, Field(ge=2)] | None = 150
    """rows of each dev file, evenly spaced; null: all"""
    sts_rows: Annotated[int, Field(ge=2)] | None = None
    """rows of each STS file, evenly spaced; null: all"""
    tatoeba_rows: Count | None = None
    """first lines of each Tatoeba file; null: all"""


class RunConfig(ConfigModel):
    """One training run."""

    languages: list[str] = Field(min_length=1)
    """besides English, the teacher's language"""
    corpus: CorpusConfig
    """the parallel text"""
    name: str | None = None
    """of the model in its card; null: the name of the output folder"""
    teacher: str = "sentence-transformers/all-MiniLM-L6-v2"
    """the English model to distil: folder or hub name"""
    base: str | None = None
    """the encoder to shrink: folder or hub name; null: the teacher"""
    labels: LabelConfig = LabelConfig()
    """what the student predicts"""
    head: Literal["base", "fitted"] = "base"
    """the base's, or random if it has none; fitted by ridge regression"""
    trust_remote_code: bool = False
    """run code from the folder of teacher or base"""
    stages: list[Stage] = Field(default=list(PAPER_STAGES))
    """the stages to train; others are skipped"""
    assistant: StageConfig = StageConfig()
    """stage 1"""
    bottleneck: BottleneckConfig = BottleneckConfig()
    """stage 2"""
    student_stage: StudentStageConfig = StudentStageConfig()
    """stage 3"""
    contrastive: ContrastiveConfig = ContrastiveConfig()
    """stage 4"""
    passages: PassagesConfig = PassagesConfig()
    """stage 5, not in the paper"""
    continue_from: str | None = None
    """a checkpoint of `python -m export.restore --checkpoint` to train further, with stage 5 alone; null: the base"""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """the vocabulary"""
    lexical: LexicalConfig = LexicalConfig()
    """the start of a new vocabulary"""
    student: StudentConfig = StudentConfig()
    """the size of the student"""
    evaluation: EvaluationConfig = EvaluationConfig()
    """scores during the run"""
    first_dimensions: list[Count] = Field(default=[])
    """how many first dimensions of a vector shall rank texts as the whole does (`training.models.first_dimensions`)"""
    seed: Seed = 1
    """of every random choice"""
    checkpoint_minutes: float = 3.0
    """between checkpoints of a running stage"""

    @property
    def teachers(self) -> list[str]:
        """All teachers, `teacher` first."""
        return [self.teacher, *self.labels.beside]

    @property
    def has_label_space(self) -> bool:
        """Whether labels differ from the teacher's plain embeddings."""
        return self.labels not in (LabelConfig(), LabelConfig(raw=True))

    @property
    def trained_on(self) -> dict[str, list[str]]:
        """Setting -> the sources it names."""
        return {"corpus.sources": list(self.corpus.sources), "passages.sets": list(self.passages.sets)}

    @property
    def scored_languages(self) -> list[str]:
        """The languages that models are scored in."""
        return self.evaluation.languages or self.languages

    @property
    def dev_folder(self) -> str:
        """The dev set's folder under DIR/eval."""
        return self.evaluation.dev or STSB_DEV

    @property
    def bf16(self) -> bool:
        """Whether labels and scores are computed in bf16 where the hardware can: some stage is."""
        return any(self.stage(name).bf16 for name in self.stages)

    @property
    def validates(self) -> bool:
        """Whether a trained stage computes dev scores."""
        return any(self.stage(name).validate_pairs for name in self.stages)

    def stage(self, name: Stage) -> StageConfig:
        """The settings of a stage."""
        settings: StageConfig = getattr(self, stage_key(name))
        return settings

    def word_width(self, name: Stage) -> int | None:
        """Width of the word table that a stage trains; None: the base's hidden size."""
        return None if name == "assistant" else self.student.bottleneck_size

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        repeated = sorted({language for language in self.languages if self.languages.count(language) > 1})
        if repeated:
            raise ValueError(f"languages lists {repeated[0]!r} more than once")
        if self.stages != [name for name in STAGES if name in self.stages]:
            raise ValueError(f"stages is {self.stages}; each at most once, in order: {', '.join(STAGES)}")
        for name in self.stages:
            self._check_stage(name)
        if "passages" in self.stages and not self.passages.sets:
            raise ValueError("passages.sets is empty; stage 5 needs questions: name files of qa/ in the data folder")
        if self.continue_from is not None and self.stages != ["passages"]:
            raise ValueError(f"continue_from goes with stages: [passages], not {self.stages}")
        return self

    def _check_stage(self, name: Stage) -> None:
        key, stage, width = stage_key(name), self.stage(name), self.word_width(name)
        if (stage.pairs is None) == (stage.epochs is None):
            raise ValueError(f"{key} must have either pairs or epochs, its length")
        longest = self.student.max_length
        if stage.max_length > longest:
            raise ValueError(f"{key}.max_length is {stage.max_length}; student.max_length allows {longest}")
        if stage.round_words and width is not None and width % BLOCK_SIZE:
            raise ValueError(
                f"{key}.round_words needs a student.bottleneck_size that is a multiple of {BLOCK_SIZE}, not {width}"
            )
        unknown = [source for source in stage.sources or [] if source not in self.corpus.sources]
        if unknown:
            raise ValueError(f"{key}.sources has {unknown[0]!r}, which corpus.sources lacks")


def stage_key(name: Stage) -> str:
    """A stage's key in a configuration: `student` is the model's size, `student_stage` its training."""
    return "student_stage" if name == "student" else name


def load_config(path: Path) -> RunConfig:
    """Read a YAML configuration.

    Raises: ConfigError: the file is missing or not YAML, a key is unknown or missing, a value cannot be used.
    """
    return build(RunConfig, read_yaml(path), where=path.name)
