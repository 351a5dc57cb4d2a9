"""What the command asks for, and which of it makes no sense. Knows options; exports nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from export.errors import BadRequest
from export.gate import GateLimits
from export.quantization.tables import TableBits
from service.model.artifact import Padding

Precision = Literal["int8", "fp32"]
Progress = Callable[[str], None]
Figures = Mapping[str, float | None]  # everything measured, under the names that the manifest has
OF_ENCODERS = ("sts", "min_cosine", "max_sts_drop")
OF_RERANKERS = ("questions", "min_rank_correlation", "max_acc1_drop")


@dataclass(frozen=True)
class ExportRequest:
    """The options of the command; what is given replaces what the checkpoint's record says."""

    checkpoint: Path
    out: Path
    precision: Precision
    calibration: Path | None = None
    word_bits: TableBits = 8
    padding: Padding = "skipped"  # where the body's family can
    name: str | None = None
    languages: tuple[str, ...] = ()
    sts: Path | None = None  # of encoders
    questions: Path | None = None  # of re-rankers
    limits: GateLimits = field(default_factory=GateLimits)
    force: bool = False
    fold_text: bool = False  # before the model reads it
    trust_remote_code: bool = False  # run Python files of the checkpoint


def check_options(request: ExportRequest, *, is_reranker: bool) -> None:
    """Refuse options that would be ignored: those of int8 with fp32, which rounds nothing, and those of the other kind.

    Raises: BadRequest: names the first of them.
    """
    if is_reranker:
        reason = f"is for encoders: {request.checkpoint} is a re-ranker"
        reasons = dict.fromkeys([*OF_ENCODERS, "trust_remote_code"], reason)
    else:
        reasons = dict.fromkeys(OF_RERANKERS, f"is for re-rankers: {request.checkpoint} is none")
    if request.precision == "fp32":
        for option in ("calibration", "word_bits", *OF_ENCODERS, *OF_RERANKERS):
            reasons.setdefault(option, "is for --precision int8: fp32 rounds nothing")
    values, defaults = vars(request) | vars(request.limits), vars(ExportRequest) | vars(GateLimits)
    for option, reason in reasons.items():
        if values[option] != defaults[option]:
            raise BadRequest(f"--{option.replace('_', '-')} {reason}")
