"""Reads what training left of a cross-encoder: its folder and `crosslet.json`. Knows nothing about ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import tokenizers  # type: ignore[import-untyped]

from export.checkpoint import (
    RECORD_FILE,
    TrainingRecord,
    check_length,
    leave_out_positions,
    plain_tokenizer,
    read_record,
)
from export.errors import BadCheckpoint, BadRequest
from training.errors import ConfigError, EvaluationError
from training.models.cross_encoder import CrossEncoder
from training.reranking.checkpoint import load_cross_encoder
from training.reranking.collection import Texts
from training.reranking.pair_tokens import PairTokenizer
from training.reranking.ranking import RankingSet
from training.reranking.readers import read_jsonl
from training.system.text_files import text_lines

Pair = tuple[str, str]  # query, passage


@dataclass(frozen=True)
class RankingGate:
    """Questions, each with passages to rank; candidates and positives are indices of `passages`."""

    queries: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    candidates: tuple[tuple[int, ...], ...] = ()
    positives: tuple[tuple[int, ...], ...] = ()

    def as_set(self) -> RankingSet:
        """As the measures take it."""
        return RankingSet(
            list(self.queries),
            list(self.passages),
            [np.array(row, dtype=np.int64) for row in self.candidates],
            [frozenset(row) for row in self.positives],
        )


@dataclass(frozen=True)
class RerankerRecord(TrainingRecord):
    """`crosslet.json` of a cross-encoder."""

    calibration_pairs: tuple[Pair, ...] = ()
    ranking_gate: RankingGate = field(default_factory=RankingGate)


@dataclass(frozen=True)
class RerankerCheckpoint:
    """A cross-encoder ready to be traced.

    model: in float32, eager attention: the reference that the graph must match.
    pair_tokenizer: gives the token ids that it was trained on.
    tokenizer: without truncation and padding, which are the consumer's.
    """

    model: CrossEncoder
    pair_tokenizer: PairTokenizer
    tokenizer: tokenizers.Tokenizer
    record: RerankerRecord


def read_reranker(folder: Path, *, name: str | None = None, languages: tuple[str, ...] = ()) -> RerankerCheckpoint:
    """Load a checkpoint; `name` and `languages` replace what it says.

    Raises: BadCheckpoint: it is unreadable, its record is malformed, or its tokenizer cannot tell the sides of a pair.
    """
    try:
        model, tokenizer, facts = load_cross_encoder(folder)
        pair_tokenizer = PairTokenizer(tokenizer, max_length=facts.max_length)
    except (EvaluationError, ConfigError) as exc:
        raise BadCheckpoint(f"{folder} cannot be loaded ({exc})") from exc
    if (folder / RECORD_FILE).is_file():
        record = read_record(folder, RerankerRecord)
    else:  # of a stage: the run is not finished
        record = RerankerRecord(facts.name, tuple(facts.languages), facts.max_length)
    record = replace(
        record, name=name or record.name, languages=languages or record.languages, max_length=facts.max_length
    )
    body = getattr(model.encoder, "body", model.encoder)
    check_length(folder, body, record.max_length)
    leave_out_positions(body, record.max_length)
    return RerankerCheckpoint(model, pair_tokenizer, plain_tokenizer(folder, tokenizer), record)


def read_questions(path: Path) -> RankingGate:
    """The questions of a JSON-lines file: query, positives and, where known, negatives (else all passages are ranked).

    Raises: BadRequest: the file cannot be read, is malformed, or leaves nothing to rank.
    """
    try:
        collection = read_jsonl(path)
    except (EvaluationError, OSError) as exc:
        raise BadRequest(f"{exc} (--questions)") from exc
    found = RankingSet.of(collection, _first([one.texts for one in collection.questions]), _first(collection.passages))
    if not any(len(row) > len(positives) for row, positives in zip(found.candidates, found.positives, strict=True)):
        raise BadRequest(f"{path} has no question with a passage that does not answer it (--questions)")
    return RankingGate(
        tuple(found.queries),
        tuple(found.passages),
        tuple(tuple(row.tolist()) for row in found.candidates),
        tuple(tuple(sorted(row)) for row in found.positives),
    )


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """`query<TAB>passage`, a pair a line; empty lines are left out.

    Raises: BadRequest: the file cannot be read, a line is malformed (names it), or there is no pair.
    """
    pairs: list[Pair] = []
    try:
        for number, line in text_lines(path, error=ValueError):
            query, separator, passage = line.rstrip("\r").partition("\t")
            if not line.strip():
                continue
            if not separator or "\t" in passage:
                raise ValueError(f"{path}:{number} is not query<TAB>passage")
            pairs.append((query, passage))
    except ValueError as exc:
        raise BadRequest(f"{exc} (--calibration)") from exc
    if not pairs:
        raise BadRequest(f"{path} has no pair (--calibration)")
    return tuple(pairs)


def _first(texts: Sequence[Texts]) -> list[str | None]:
    """The language of each that it has first."""
    return [next(iter(one)) for one in texts]
