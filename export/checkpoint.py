"""What the checkpoints of encoders and re-rankers share: `crosslet.json` of the training run, positions, tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers  # type: ignore[import-untyped]
from pydantic import TypeAdapter, ValidationError
from torch import nn

from export.errors import BadCheckpoint
from service.model.artifact import DataLicence
from training.models.start import OFFSET_FAMILIES
from training.reranking.ranking import RankingSet
from training.system.files import RECORD_FILE

Pair = tuple[str, str]  # query, passage
ROBERTA_FAMILY = (*OFFSET_FAMILIES, "mpnet")  # positions start after the padding id
CUT_FAMILIES = ("bert", "distilbert", *ROBERTA_FAMILY)  # known position layouts; others keep the whole table
TRACED_TOKENS = 16  # length of the text that optimum traces with


@dataclass(frozen=True)
class RankingGate:
    """Questions as recorded, each with passages to rank; candidates and positives are indices of `passages`."""

    queries: list[str] = field(default_factory=list)
    passages: list[str] = field(default_factory=list)
    candidates: list[list[int]] = field(default_factory=list)
    positives: list[frozenset[int]] = field(default_factory=list)

    def as_set(self) -> RankingSet:
        """As the measures take it."""
        candidates = [np.array(row, dtype=np.int64) for row in self.candidates]
        return RankingSet(self.queries, self.passages, candidates, self.positives)


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
    calibration_pairs: tuple[Pair, ...] = ()  # of a re-ranker, as the next
    ranking_gate: RankingGate = field(default_factory=RankingGate)

    def facts(self) -> dict[str, object]:
        """What a manifest says of the run; nothing of a model that this project has not trained."""
        names = ("config", "git_commit", "pairs_seen", "weaknesses")
        return {name: getattr(self, name) for name in names} if self.config else {}


def read_record(folder: Path) -> TrainingRecord:
    """`crosslet.json` of a folder.

    Raises: BadCheckpoint: it is malformed.
    """
    try:
        return TypeAdapter(TrainingRecord).validate_json((folder / RECORD_FILE).read_bytes())
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadCheckpoint(f"{folder}: {RECORD_FILE}: {where}: {first['msg']}") from exc


def cut_positions(folder: Path, body: Any, max_length: int) -> None:
    """Keep the position embeddings of texts of `max_length` tokens: no other is read, and an artifact is small.

    Raises: BadCheckpoint: the body has fewer.
    """
    body = getattr(body, "body", body)  # of a student
    config = body.config
    first = (config.pad_token_id or 0) + 1 if config.model_type in ROBERTA_FAMILY else 0
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and max_length > positions - first:
        raise BadCheckpoint(f"{folder}: max_length is {max_length}, but the body has {positions - first} positions")
    if config.model_type in CUT_FAMILIES:
        count = max(max_length, TRACED_TOKENS) + first
        table = body.embeddings.position_embeddings.weight[:count].detach().clone()
        body.embeddings.position_embeddings = nn.Embedding.from_pretrained(table)  # type: ignore[no-untyped-call]
        config.max_position_embeddings = len(table)


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
