"""Reads a checkpoint: a sentence-transformers folder, and the `crosslet.json` that training wrote into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import tokenizers  # type: ignore[import-untyped]
from pydantic import TypeAdapter, ValidationError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn

import training.models.sentence_encoder  # noqa: F401 - registers the crosslet architecture with transformers
from export.errors import BadCheckpoint, BadRequest
from export.prompts import Prompts, check_configuration, prompts_of
from service.model.artifact import DataLicence
from training.errors import LoadError
from training.models.loading import load_sentence_transformer
from training.models.start import OFFSET_FAMILIES

RECORD_FILE = "crosslet.json"

R = TypeVar("R", bound="TrainingRecord")


@dataclass(frozen=True)
class TrainingRecord:
    """The contents of `crosslet.json`, facts of the training run; unused keys are ignored."""

    name: str
    languages: tuple[str, ...]
    max_length: int  # tokens, including special ones
    config: Mapping[str, Any] = field(default_factory=dict)
    git_commit: str | None = None
    pairs_seen: Mapping[str, int] = field(default_factory=dict)
    weaknesses: tuple[str, ...] = ()  # sentences for the model card
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    data: tuple[DataLicence, ...] = ()
    calibration_texts: tuple[str, ...] = ()
    parity_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sts_gate: tuple[tuple[float, str, str], ...] = ()


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
    record = read_record(folder, TrainingRecord) if (folder / RECORD_FILE).is_file() else None
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


def read_record(folder: Path, kind: type[R]) -> R:
    """`crosslet.json` of a folder.

    Raises: BadCheckpoint: it is malformed.
    """
    try:
        return TypeAdapter(kind).validate_json((folder / RECORD_FILE).read_bytes())
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadCheckpoint(f"{folder}: {RECORD_FILE}: {where}: {first['msg']}") from exc


def _default_max_length(folder: Path, model: SentenceTransformer) -> int:
    if model.max_seq_length is None:
        raise BadCheckpoint(f"{folder} does not define its maximum length (max_seq_length)")
    return int(model.max_seq_length)


def check_length(folder: Path, body: Any, max_length: int) -> None:
    """The body needs a position embedding for every token.

    Raises: BadCheckpoint.
    """
    config = body.config
    table = getattr(config, "max_position_embeddings", None)
    if table is None:
        return
    offset = _first_position(config)
    if max_length > table - offset:
        raise BadCheckpoint(f"{folder}: max_length is {max_length}, but the body has {table - offset} positions")


def leave_out_positions(body: Any, max_length: int) -> None:
    """Keep the position embeddings of texts of `max_length` tokens: no other is read, and an artifact is small."""
    if body.config.model_type not in CUT_FAMILIES:
        return
    count = max(max_length, TRACED_TOKENS) + _first_position(body.config)
    table = body.embeddings.position_embeddings.weight[:count].detach().clone()
    body.embeddings.position_embeddings = nn.Embedding.from_pretrained(table)  # type: ignore[no-untyped-call]
    body.config.max_position_embeddings = len(table)


def _body(model: SentenceTransformer) -> Any:
    body = model[0].auto_model
    return getattr(body, "body", body)


def _first_position(config: Any) -> int:
    return (config.pad_token_id or 0) + 1 if config.model_type in ROBERTA_FAMILY else 0


ROBERTA_FAMILY = (*OFFSET_FAMILIES, "mpnet")  # positions start after the padding id
CUT_FAMILIES = ("bert", "distilbert", *ROBERTA_FAMILY)  # known position layouts; others keep the whole table
TRACED_TOKENS = 16  # length of the text that optimum traces with


def plain_tokenizer(folder: Path, of_model: Any) -> tokenizers.Tokenizer:
    """A transformers tokenizer as `tokenizers` has it, without truncation and padding.

    Raises: BadCheckpoint: it is a Python one.
    """
    backend = getattr(of_model, "backend_tokenizer", None)
    if backend is None:
        raise BadCheckpoint(
            f"{folder} has a Python tokenizer; only a tokenizer.json can be served without transformers"
        )
    tokenizer = tokenizers.Tokenizer.from_str(backend.to_str())  # a copy: the model's tokenizer keeps its settings
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def training_facts(record: TrainingRecord) -> dict[str, object]:
    """What a manifest says of the run; nothing of a model that this project has not trained."""
    if not record.config:
        return {}
    return {
        "config": record.config,
        "git_commit": record.git_commit,
        "pairs_seen": record.pairs_seen,
        "weaknesses": record.weaknesses,
    }
