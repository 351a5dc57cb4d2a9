"""`python -m export`: the options, progress on stderr, and one sentence where it fails."""

from __future__ import annotations

import argparse
import errno
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from safetensors import SafetensorError
from transformers.utils import logging as transformers_logging

from export.errors import ExportError
from export.gate import GateLimits
from export.pipeline import export_artifact
from export.request import ExportRequest
from service.model.artifact import ArtifactError

FAILED = 2
STOPPED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0, 2 with the reason on stderr, or 130 on Ctrl-C."""
    request = read_options(arguments)
    transformers_logging.set_verbosity_error()
    return status_of(lambda: export_artifact(request, progress=say))


def status_of(work: Callable[[], object]) -> int:
    """Do the work of a command of this package: 0, 2 with the reason on stderr, or 130 on Ctrl-C."""
    try:
        work()
    except (ExportError, ArtifactError, SafetensorError) as exc:  # the last: a full disk
        say(str(exc))
        return FAILED
    except OSError as exc:
        is_full = exc.errno == errno.ENOSPC
        say(f"{exc} (--out, or {tempfile.gettempdir()}: TMPDIR names another)" if is_full else str(exc))
        return FAILED
    except KeyboardInterrupt:
        say("stopped")
        return STOPPED
    return 0


def say(message: str) -> None:
    """One line on stderr."""
    print(f"export: {message}", file=sys.stderr, flush=True)


def read_options(arguments: Sequence[str] | None) -> ExportRequest:
    """The command line as a request."""
    parser = argparse.ArgumentParser(prog="python -m export", description="Turn a checkpoint into a served artifact.")
    add = parser.add_argument
    add("--checkpoint", type=Path, required=True, help="folder of sentence-transformers, or of a cross-encoder")
    add("--out", type=Path, required=True, help="artifact folder to write")
    add("--precision", choices=["int8", "fp32"], default="int8", help="default: %(default)s")
    add(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="int8: a text a line (of a re-ranker query<TAB>passage), like those to come: activations are rounded with "
        "steps fixed by these; default: the record's",
    )
    add(
        "--word-bits",
        type=int,
        choices=[4, 8],
        default=8,
        help="int8: of the word embeddings; 4 lets in twice the vocabulary; default: %(default)s",
    )
    add(
        "--padding",
        choices=["skipped", "computed"],
        default="skipped",
        help="of a batch's shorter texts: compute on tokens alone, where the body's family can, or on every place, for "
        "runtimes that must know shapes beforehand: texts of unlike lengths then share no pass; default: %(default)s",
    )
    add("--name", help="name of the model; default: the record's")
    add("--languages", type=_languages, default=(), metavar="en,de,...", help="ISO codes; default: the record's")
    add(
        "--sts",
        type=Path,
        metavar="FILE.tsv",
        help="int8: score<TAB>sentence<TAB>sentence, in place of the record's pairs",
    )
    add(
        "--min-cosine",
        type=float,
        default=GateLimits.min_cosine,
        help="int8: mean cosine to fp32; default: %(default)s",
    )
    add("--max-sts-drop", type=float, default=GateLimits.max_sts_drop, help="int8: points of STS; default: %(default)s")
    add(
        "--questions",
        type=Path,
        metavar="FILE.jsonl",
        help="int8 of a re-ranker: query, positives and negatives a line, in place of the record's questions",
    )
    add(
        "--min-rank-correlation",
        type=float,
        default=GateLimits.min_rank_correlation,
        help="int8 of a re-ranker: of its scores to fp32's; default: %(default)s",
    )
    add(
        "--max-acc1-drop",
        type=float,
        default=GateLimits.max_acc1_drop,
        help="int8 of a re-ranker: points of acc@1; default: %(default)s",
    )
    add(
        "--fold-text",
        action="store_true",
        help="the service writes WORDS IN CAPITALS small and drops vowel marks first",
    )
    add("--force", action="store_true", help="replace the artifact at --out")
    add("--trust-remote-code", action="store_true", help="run Python files of the checkpoint's folder")
    options = vars(parser.parse_args(arguments))
    limits = {name: options.pop(name) for name in GateLimits.__dataclass_fields__ if name in options}
    return ExportRequest(**options, limits=GateLimits(**limits))


def _languages(text: str) -> tuple[str, ...]:
    return tuple(code.strip() for code in text.split(",") if code.strip())


if __name__ == "__main__":
    sys.exit(main())
