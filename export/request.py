"""What the command asks for, and which of it makes no sense. Knows options; exports nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from export.errors import BadRequest
from export.gate import GateLimits
from export.quantization.tables import TableBits
from service.model.artifact import Padding

Precision = Literal["int8", "fp32"]
Progress = Callable[[str], None]
Figures = dict[str, float | None]  # everything measured, under the names that the manifest has


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
    trust_remote_code: bool = False  # run Python files of the checkpoint


def check_options(request: ExportRequest, *, is_reranker: bool) -> None:
    """Refuse options that would be ignored: those of int8 with fp32, which rounds nothing, and those of the other kind.

    Raises: BadRequest: names the first of them.
    """
    of_encoders = {
        "--sts": request.sts is not None,
        "--min-cosine": request.limits.min_cosine != GateLimits.min_cosine,
        "--max-sts-drop": request.limits.max_sts_drop != GateLimits.max_sts_drop,
    }
    of_rerankers = {
        "--questions": request.questions is not None,
        "--min-rank-correlation": request.limits.min_rank_correlation != GateLimits.min_rank_correlation,
        "--max-acc1-drop": request.limits.max_acc1_drop != GateLimits.max_acc1_drop,
    }
    of_int8 = {
        "--calibration": request.calibration is not None,
        "--word-bits": request.word_bits != 8,
        **of_encoders,
        **of_rerankers,
    }
    if is_reranker:
        remote_code = {"--trust-remote-code": request.trust_remote_code}
        _refuse_any(of_encoders | remote_code, f"is for encoders: {request.checkpoint} is a re-ranker")
    else:
        _refuse_any(of_rerankers, f"is for re-rankers: {request.checkpoint} is none")
    if request.precision == "fp32":
        _refuse_any(of_int8, "is for --precision int8: fp32 rounds nothing")


def _refuse_any(options: dict[str, bool], reason: str) -> None:
    given = next((option for option, is_given in options.items() if is_given), None)
    if given is not None:
        raise BadRequest(f"{given} {reason}")
