"""An encoder as a kind: its checkpoint, a sentence-transformers folder, and what its graph is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers  # type: ignore[import-untyped]
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

import training.models.sentence_encoder  # noqa: F401 - registers the crosslet architecture with transformers
from export.checkpoint import TrainingRecord, cut_positions, plain_tokenizer, read_record
from export.errors import BadCheckpoint, BadRequest
from export.gate import check_vectors, vector_loss
from export.graph import SentenceGraph, build_graph, truncated_dim
from export.inputs import check_rankable, read_sts, read_texts, some_of
from export.parity import parity_texts
from export.request import ExportRequest, Figures, Precision, Progress
from export.session import OutputName, Outputs, Rows
from service.model.artifact import SCHEMA_VERSION, Kind, ParityPack
from service.model.prompts import Prompts
from service.model.tokenizer import Tokenizer
from training.errors import LoadError
from training.models.loading import load_sentence_transformer
from training.system.files import RECORD_FILE

CONFIG_FILE = "config_sentence_transformers.json"
DECIMALS = 7  # the precision of float32 in a unit vector
MIN_COSINE: dict[Precision, float] = {  # of the parity pack
    "int8": 0.99,  # another CPU rounds activations otherwise; as close as int8 must be to fp32
    "fp32": 0.9999,
}

Asked = tuple[str | None, str]  # prompt name (None: the default), text


class CheckpointPrompts(Prompts):
    """A checkpoint's prompts. texts: empty if all prompts are."""

    def over(self, texts: Sequence[str]) -> list[Asked]:
        """Every text with the default prompt (None); every other distinct prompt with one of the texts."""
        name_of = {prompt: name for name, prompt in self.texts.items() if prompt != self.default}
        return [(None, text) for text in texts] + list(zip(name_of.values(), cycle(texts), strict=False))

    def before(self, name: str | None, text: str) -> str:
        """A text with its prompt, as the tokenizer gets it; None: the default prompt."""
        return (self.default if name is None else self.texts[name]) + text

    def in_turn(self, texts: Sequence[str]) -> list[str]:
        """Texts with the prompts in turn, to resemble the texts that will be served."""
        prompts = cycle(dict.fromkeys([self.default, *self.texts.values()]))
        return [prompt + text for prompt, text in zip(prompts, texts, strict=False)]


@dataclass(frozen=True)
class Checkpoint:
    """A sentence encoder ready to be traced.

    model: in float32, with eager attention, truncating at `record.max_length`: the reference for the graph.
    tokenizer: without truncation and padding, which are left to the consumer.
    """

    model: SentenceTransformer
    tokenizer: tokenizers.Tokenizer
    record: TrainingRecord

    @property
    def prompts(self) -> CheckpointPrompts:
        """The prompts; none if all are empty, since sentence-transformers adds two empty ones to every model."""
        if not any(self.model.prompts.values()):
            return CheckpointPrompts({}, None)
        return CheckpointPrompts(dict(self.model.prompts), self.model.default_prompt_name)


def read_checkpoint(
    folder: Path, *, name: str | None = None, languages: tuple[str, ...] = (), trust_remote_code: bool = False
) -> Checkpoint:
    """Load a checkpoint; `name` and `languages` override its record, and are required if it has none.

    Raises: BadCheckpoint: the folder is missing or unreadable, its record is malformed, or its prompts or dimensions
                cannot be served.
            BadRequest: there is no record, and an option is missing.
    """
    model = _load_model(folder, trust_remote_code)
    record = read_record(folder) if (folder / RECORD_FILE).is_file() else None
    if record is None:
        if not name or not languages:
            raise BadRequest(f"{folder} has no {RECORD_FILE}: give --name and --languages")
        if model.max_seq_length is None:
            raise BadCheckpoint(f"{folder} does not define its maximum length (max_seq_length)")
        record = TrainingRecord(name=name, languages=languages, max_length=int(model.max_seq_length))
    record = replace(record, name=name or record.name, languages=languages or record.languages)
    cut_positions(folder, model[0].auto_model, record.max_length)
    model.max_seq_length = record.max_length
    tokenizer = plain_tokenizer(folder, model.tokenizer)
    _check_prompts(folder, model, tokenizer, record.max_length)
    return Checkpoint(model, tokenizer, record)


def _load_model(folder: Path, trust_remote_code: bool) -> SentenceTransformer:
    if not folder.is_dir():
        raise BadCheckpoint(f"checkpoint folder {folder} does not exist (--checkpoint)")
    if not (folder / "modules.json").is_file():
        raise BadCheckpoint(f"{folder} has no modules.json: it is not a sentence-transformers checkpoint")
    try:
        model = load_sentence_transformer(
            str(folder),
            trust_remote_code=trust_remote_code,
            device="cpu",
            local_files_only=True,
            model_kwargs={"attn_implementation": "eager"},  # ONNX then stores shared weights once
        )
    except LoadError as exc:
        raise BadCheckpoint(f"{folder} cannot be loaded ({exc})") from exc
    if not isinstance(model[0], Transformer):
        raise BadCheckpoint(f"{folder} begins with a {type(model[0]).__name__}, not with a transformer body")
    return model.float().eval()


def _check_prompts(folder: Path, model: SentenceTransformer, tokenizer: tokenizers.Tokenizer, max_length: int) -> None:
    """Raises: BadCheckpoint: a prompt is no text, leaves no room for text, or is not pooled."""
    for name, prompt in model.prompts.items():
        try:
            prompt.encode()
        except (AttributeError, UnicodeEncodeError) as exc:  # another type, or JSON's lone surrogates
            raise BadCheckpoint(f"{folder}: {CONFIG_FILE}: prompt {name!r} is not valid text") from exc
        tokens = len(tokenizer.encode(prompt).ids)
        if prompt and tokens >= max_length:
            raise BadCheckpoint(
                f"{folder}: prompt {name!r} has {tokens} tokens and the model reads {max_length}: no room for text"
            )
    leaves_out = any(not module.include_prompt for module in model if isinstance(module, Pooling))
    if leaves_out and any(model.prompts.values()):
        raise BadCheckpoint(
            f"{folder} pools without its prompts (include_prompt is false), but the graph pools every token: set it to "
            f"true, or remove the prompts from {CONFIG_FILE}"
        )


class BiEncoderKind:
    """In what an encoder's export differs: what goes into the graph, and what its outputs are compared with."""

    name: Kind = "bi-encoder"
    unit = "text"  # what a row of token ids is
    output: OutputName = "sentence_embedding"

    def __init__(self, request: ExportRequest) -> None:
        self.checkpoint = read_checkpoint(
            request.checkpoint,
            name=request.name,
            languages=request.languages,
            trust_remote_code=request.trust_remote_code,
        )
        self.record, self.tokenizer = self.checkpoint.record, self.checkpoint.tokenizer
        self.request, self.prompts = request, self.checkpoint.prompts
        self.texts = parity_texts(self.record)
        self.asked = self.prompts.over(self.texts)
        sts = self.record.sts_gate if request.sts is None else read_sts(request.sts)
        if request.sts is None and sts:
            check_rankable(sts, where=f"sts_gate of {request.checkpoint / RECORD_FILE}")
        default = self.prompts.default
        self.pairs = [(score, default + left, default + right) for score, left, right in sts]
        texts = self.record.calibration_texts if request.calibration is None else read_texts(request.calibration)
        self.calibration = self._rows(self.prompts.in_turn(some_of(texts)))

    def graph(self) -> SentenceGraph:
        """Body, pooling, head and normalisation."""
        return build_graph(self.checkpoint.model, skip_padding=self.request.padding == "skipped")

    def reference_rows(self) -> Rows:
        """The parity texts with the default prompt, and one with each other prompt."""
        return self._rows([self.prompts.before(*asked) for asked in self.asked])

    def check_fp32(self, fp32: Outputs, progress: Progress) -> Figures:
        """Cosines to the vectors of sentence-transformers."""
        embed = partial(self.checkpoint.model.encode, normalize_embeddings=True, show_progress_bar=False)
        expected_ND = np.stack([embed(text, prompt_name=name) for name, text in self.asked])
        figures = check_vectors(expected_ND, fp32, self.request.limits)
        progress(f"fp32: lowest cosine to torch {figures['min_cosine_to_torch']:.7f} over {len(fp32)} texts")
        return figures

    @cached_property
    def _row_of(self) -> dict[str, int]:
        """Each distinct text on which int8 is measured, with its prompt, and its row."""
        texts = [self.prompts.before(*asked) for asked in self.asked]
        distinct = dict.fromkeys([*texts, *(text for _, *sides in self.pairs for text in sides)])
        return {text: row for row, text in enumerate(distinct)}

    def gate_rows(self, progress: Progress) -> Rows:
        """The same texts and both sides of the STS pairs, each distinct text once."""
        if not self.pairs:
            progress("int8: STS is not measured, the checkpoint's record has no pairs; --sts FILE gives some")
        return self._rows(list(self._row_of))

    def check_int8(self, fp32: Outputs, int8: Outputs, progress: Progress) -> Figures:
        """Cosines, and the Spearman correlation of STS, in both precisions."""
        loss = vector_loss(fp32, int8, self._row_of, self.pairs)
        progress(f"int8: mean cosine to fp32 {loss.mean_cosine_to_fp32:.4f} over {loss.texts} texts")
        if loss.sts_fp32 is not None and loss.sts_int8 is not None:
            progress(f"int8: STS {loss.sts_int8:.2f}, fp32 {loss.sts_fp32:.2f}, over {loss.sts_pairs} pairs")
        loss.check(self.request.limits)
        return asdict(loss)

    def parity_pack(self, tokenizer: Tokenizer, run: Callable[[Rows], Outputs]) -> ParityPack:
        """Vectors of the parity texts with the default prompt."""
        rows = [tokenizer.tokenise(self.prompts.default + text).input_ids for text in self.texts]
        return ParityPack(
            schema_version=SCHEMA_VERSION,
            min_cosine=MIN_COSINE[self.request.precision],
            texts=tuple(self.texts),
            input_ids=tuple(tuple(ids) for ids in rows),
            embeddings=tuple(tuple(round(float(value), DECIMALS) for value in row) for row in run(rows)),
        )

    def facts(self) -> dict[str, Any]:
        """The prompts, and how many dimensions are kept."""
        return {
            "prompts": self.prompts.texts,
            "default_prompt_name": self.prompts.default_name,
            "truncate_dim": truncated_dim(self.checkpoint.model),
        }

    def _rows(self, texts: Sequence[str]) -> Rows:
        """Token ids of texts as the tokenizer gets them, truncated."""
        tokenizer = tokenizers.Tokenizer.from_str(self.tokenizer.to_str())
        tokenizer.enable_truncation(self.record.max_length)
        return [tokenizer.encode(text).ids for text in texts]
