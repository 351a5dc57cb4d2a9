"""`crosslet mine` and `crosslet dedup`, over files with one sentence a line. Heavy modules are imported when used."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.arguments import DEFAULT, OUT, Subcommand, argument, finite, positive, prompt_option
from service.cli.start_trial import Use
from service.settings import Settings

if TYPE_CHECKING:
    from service.offline.embedding import Engine

MARGIN = 1.25  # of translations: docs/guide/mine.md
DEDUP_MARGIN, COSINE = 1.6, 0.8  # of lines that say the same: docs/guide/mine.md


def mine(options: argparse.Namespace, settings: Settings) -> None:
    """Print pairs of lines that translate each other: margin, left, right; best first, each line at most once.

    Raises: InvalidInput: a line is not a valid text.
    """
    from service.documents.readers.jsonl import Lines
    from service.offline.mining import mine_rows, mined_as_tsv
    from service.offline.output import writing

    engine, dim = _load_engine(options, settings)
    with Lines(options.left) as left, Lines(options.right) as right, writing(options.out) as out:
        mined = mine_rows(left, right, engine, k=options.k, dim=dim, settings=settings)
        out.writelines(mined_as_tsv(left, right, mined, threshold=options.threshold))


def dedup(options: argparse.Namespace, settings: Settings) -> None:
    """Print groups of lines that say the same in any language, or the file with one line of each group.

    Raises: InvalidInput: a line is not a valid text.
    """
    from service.documents.readers.jsonl import Lines
    from service.offline.mining import find_groups, groups_as_json, without_repeats
    from service.offline.output import writing

    engine, dim = _load_engine(options, settings)
    cosine, margin = options.threshold, options.margin
    with Lines(options.file) as lines, writing(options.out) as out:
        first_N = find_groups(lines, engine, cosine=cosine, margin=margin, dim=dim, settings=settings)
        out.writelines(without_repeats(lines, first_N) if options.keep else groups_as_json(lines, first_N))


def _load_engine(options: argparse.Namespace, settings: Settings) -> "tuple[Engine, int]":
    """Return the engine of the model with the chosen prompt, and the model's dims."""
    from service.model.encoder import choose_encoder
    from service.offline.embedding import engine_of

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    prompt = encoder.prompts.chosen(options.prompt_name)
    return engine_of("threads", encoder, settings, prompt=prompt), encoder.manifest.dim


MINE = Subcommand(
    mine,
    "find translations between two files of one sentence a line",
    [
        argument("left", type=Path, metavar="A.txt", help="one sentence a line"),
        argument("right", type=Path, metavar="B.txt", help="one sentence a line"),
        OUT,
        prompt_option(),
        argument(
            "--threshold", type=finite, default=MARGIN, help=f"smallest margin; 1.06 finds more and errs more {DEFAULT}"
        ),
        argument("--k", type=positive, default=4, help=f"neighbours to compute the margin from {DEFAULT}"),
    ],
    Use.DOCUMENTS,
)
DEDUP = Subcommand(
    dedup,
    "find lines that say the same, in any language",
    [
        argument("file", type=Path, metavar="FILE", help="one sentence a line, or .jsonl with a text in each line"),
        OUT,
        prompt_option(),
        argument("--threshold", type=finite, default=COSINE, help=f"smallest cosine of similar lines {DEFAULT}"),
        argument(
            "--margin",
            type=finite,
            default=DEDUP_MARGIN,
            help=f"smallest cosine over the mean with other lines {DEFAULT}; 0: --threshold alone counts, best at 0.9",
        ),
        argument("--keep", choices=["first"], help="write the file with only the first line of each group"),
    ],
    Use.DOCUMENTS,
)
