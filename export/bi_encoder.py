"""An encoder as a kind: its checkpoint, a sentence-transformers folder, and what its graph is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers  # type: ignore[import-untyped]
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer

import training.models.sentence_encoder  # noqa: F401 - registers the crosslet architecture with transformers
from export.checkpoint import (
    RECORD_FILE,
    TrainingRecord,
    check_length,
    leave_out_positions,
    plain_tokenizer,
    read_record,
)
from export.errors import BadCheckpoint, BadRequest
from export.gate import StsPair, check_vector_fidelity, check_vector_loss, vector_fidelity, vector_loss
from export.graph import SentenceGraph, build_graph
from export.inputs import check_rankable, read_sts, read_texts
from export.parity import parity_texts
from export.prompts import Asked, Prompts, check_configuration, prompts_of, truncated_dim
from export.request import ExportRequest, Figures, Precision, Progress
from export.session import OutputName, Outputs, Rows
from service.model.artifact import SCHEMA_VERSION, ParityPack
from service.model.tokenizer import Tokenizer
from training.errors import LoadError
from training.models.loading import load_sentence_transformer

DECIMALS = 7  # the precision of float32 in a unit vector
MIN_COSINE: dict[Precision, float] = {  # of the parity pack
    "int8": 0.99,  # another CPU rounds activations otherwise; as close as int8 must be to fp32
    "fp32": 0.9999,
}


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
    def prompts(self) -> Prompts:
        """The prompts that may precede a text."""
        return prompts_of(self.model)


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
        record = TrainingRecord(name=name, languages=languages, max_length=_default_max_length(folder, model))
    record = replace(record, name=name or record.name, languages=languages or record.languages)
    check_length(folder, _body(model), record.max_length)
    model.max_seq_length = record.max_length
    leave_out_positions(_body(model), record.max_length)
    tokenizer = plain_tokenizer(folder, model.tokenizer)
    check_configuration(folder, model, tokenizer, record.max_length)
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


def _default_max_length(folder: Path, model: SentenceTransformer) -> int:
    if model.max_seq_length is None:
        raise BadCheckpoint(f"{folder} does not define its maximum length (max_seq_length)")
    return int(model.max_seq_length)


def _body(model: SentenceTransformer) -> Any:
    body = model[0].auto_model
    return getattr(body, "body", body)


class BiEncoderKind:
    """See `export.pipeline.Kind`."""

    name, unit = "bi-encoder", "text"
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
        self.pairs = [
            (score, self.prompts.default + left, self.prompts.default + right)
            for score, left, right in _sts_pairs(request, self.record)
        ]
        texts = self.record.calibration_texts if request.calibration is None else read_texts(request.calibration)
        self.calibration = self._rows(self.prompts.in_turn(texts))

    def graph(self) -> SentenceGraph:
        """Body, pooling, head and normalisation."""
        return build_graph(self.checkpoint.model, skip_padding=self.request.padding == "skipped")

    def reference_rows(self) -> Rows:
        """The parity texts with the default prompt, and one with each other prompt."""
        return self._rows([self.prompts.before(*one) for one in self.asked])

    def check_fp32(self, fp32: Outputs, progress: Progress) -> Figures:
        """Cosines to the vectors of sentence-transformers."""
        fidelity = vector_fidelity(torch_embeddings(self.checkpoint, self.asked), fp32)
        progress(f"fp32: lowest cosine to torch {fidelity.min_cosine_to_torch:.7f} over {fidelity.parity_texts} texts")
        check_vector_fidelity(fidelity, self.request.limits)
        return asdict(fidelity)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        """Each distinct text on which int8 is measured, with its prompt, and its row."""
        texts = [self.prompts.before(*one) for one in self.asked]
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
        check_vector_loss(loss, self.request.limits)
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


def torch_embeddings(checkpoint: Checkpoint, texts: Sequence[Asked]) -> npt.NDArray[np.float32]:
    """The reference vectors, computed by sentence-transformers: (N, D) float32, norm 1.

    Args: texts: each with the name of its prompt; None: the default prompt.
    """
    embed = partial(checkpoint.model.encode, normalize_embeddings=True, show_progress_bar=False)
    return np.stack([embed(text, prompt_name=name) for name, text in texts])


def _sts_pairs(request: ExportRequest, record: TrainingRecord) -> tuple[StsPair, ...]:
    if request.sts is not None:
        return read_sts(request.sts)
    if record.sts_gate:
        check_rankable(record.sts_gate, where=f"sts_gate of {request.checkpoint / RECORD_FILE}")
    return record.sts_gate
