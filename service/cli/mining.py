"""`crosslet mine` and `crosslet dedup`, over files with one sentence a line. Heavy modules are imported when used."""

import argparse
from pathlib import Path

from service.cli.arguments import OUT, Subcommand, argument, finite, positive, prompt_option
from service.cli.start_trial import Use
from service.settings import Settings

NEIGHBOURS = 4  # k of Artetxe and Schwenk 2019, and of LASER's scripts
MARGIN = 1.25  # of translations: docs/guide/mine.md
DEDUP_MARGIN, COSINE = 1.6, 0.8  # of lines that say the same: docs/guide/mine.md


def mine(options: argparse.Namespace, settings: Settings) -> None:
    """Print pairs of lines that translate each other: margin, left, right; best first, each line at most once.

    Raises: StartError: the model or a file is refused.  InvalidInput: a line is not a valid text.
    """
    from service.documents.readers.jsonl import Lines
    from service.model.encoder import choose_encoder
    from service.offline.embedding import engine_of
    from service.offline.mining import mine_lines
    from service.offline.output import writing

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    engine = engine_of("threads", encoder, settings, prompt=encoder.prompts.chosen(options.prompt_name))
    with Lines(options.left) as left, Lines(options.right) as right, writing(options.out) as out:
        pairs = mine_lines(
            left,
            right,
            engine,
            k=options.k,
            threshold=options.threshold,
            dim=encoder.manifest.dim,
            settings=settings,
        )
        for line in pairs:
            out.write(line)


def dedup(options: argparse.Namespace, settings: Settings) -> None:
    """Print groups of lines that say the same in any language, or the file with one line of each group.

    Raises: StartError: the model or the file is refused.  InvalidInput: a line is not a valid text.
    """
    from service.documents.readers.jsonl import Lines
    from service.model.encoder import choose_encoder
    from service.offline.embedding import engine_of
    from service.offline.mining import find_groups, groups_as_json, without_repeats
    from service.offline.output import writing

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    engine = engine_of("threads", encoder, settings, prompt=encoder.prompts.chosen(options.prompt_name))
    with Lines(options.file) as lines, writing(options.out) as out:
        first_N = find_groups(
            lines,
            engine,
            cosine=options.threshold,
            margin=options.margin,
            dim=encoder.manifest.dim,
            settings=settings,
        )
        for line in without_repeats(lines, first_N) if options.keep else groups_as_json(lines, first_N):
            out.write(line)


MINE = Subcommand(
    mine,
    "find translations between two files of one sentence a line",
    [
        argument("left", type=Path, metavar="A.txt", help="one sentence a line"),
        argument("right", type=Path, metavar="B.txt", help="one sentence a line"),
        OUT,
        prompt_option(),
        argument(
            "--threshold",
            type=finite,
            default=MARGIN,
            help=f"smallest margin of a pair; 1.06 finds more, and more wrong ones (default: {MARGIN})",
        ),
        argument(
            "--k",
            type=positive,
            default=NEIGHBOURS,
            help=f"neighbours to compute the margin from (default: {NEIGHBOURS})",
        ),
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
        argument(
            "--threshold", type=finite, default=COSINE, help=f"smallest cosine of similar lines (default: {COSINE})"
        ),
        argument(
            "--margin",
            type=finite,
            default=DEDUP_MARGIN,
            help=f"smallest cosine over the mean with other lines (default: {DEDUP_MARGIN}); 0: --threshold alone "
            "counts, which then should be 0.9 or so",
        ),
        argument("--keep", choices=["first"], help="write the file with only the first line of each group"),
    ],
    Use.DOCUMENTS,
)
