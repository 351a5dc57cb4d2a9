"""What `crosslet mine` and `crosslet dedup` do, over files with a sentence a line. Imports heavy parts when used."""

import argparse
from pathlib import Path

from service.cli.arguments import Subcommand, finite, out_argument, positive, prompt_argument
from service.cli.start_trial import Use
from service.settings import Settings

NEIGHBOURS = 4  # k of the paper, and of LASER's scripts
MARGIN = 1.06  # see docs/guide/mine.md
COSINE = 0.95  # see docs/guide/mine.md


def mine(options: argparse.Namespace, settings: Settings) -> None:
    """Print the pairs of lines that translate each other: margin, left, right; best first, each line at most once.

    Raises: StartError: the model or a file is refused.  InvalidInput: a line is not a text.
    """
    from service.bulk.engines import engine_of
    from service.bulk.lines import Lines
    from service.bulk.mining import mine_lines
    from service.bulk.output import writing
    from service.model.encoder import choose_encoder

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
    """Print the groups of lines that say the same, in whatever language; or the file with one line of each group.

    Raises: StartError: the model or the file is refused.  InvalidInput: a line is not a text.
    """
    from service.bulk.dedup import find_groups, groups_as_json, without_repeats
    from service.bulk.engines import engine_of
    from service.bulk.lines import Lines
    from service.bulk.output import writing
    from service.model.encoder import choose_encoder

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    engine = engine_of("threads", encoder, settings, prompt=encoder.prompts.chosen(options.prompt_name))
    with Lines(options.file) as lines, writing(options.out) as out:
        first_N = find_groups(lines, engine, threshold=options.threshold, dim=encoder.manifest.dim, settings=settings)
        for line in without_repeats(lines, first_N) if options.keep else groups_as_json(lines, first_N):
            out.write(line)


def _mine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("left", type=Path, metavar="A.txt", help="a sentence a line")
    parser.add_argument("right", type=Path, metavar="B.txt", help="a sentence a line")
    out_argument(parser)
    prompt_argument(parser)
    parser.add_argument("--threshold", type=finite, default=MARGIN, help=f"smallest margin of a pair ({MARGIN})")
    parser.add_argument("--k", type=positive, default=NEIGHBOURS, help=f"neighbours of the margin ({NEIGHBOURS})")


def _dedup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a sentence a line, or .jsonl with a text in each")
    out_argument(parser)
    prompt_argument(parser)
    parser.add_argument("--threshold", type=finite, default=COSINE, help=f"cosine of lines that are alike ({COSINE})")
    parser.add_argument("--keep", choices=["first"], help="write the file with the first line of each group instead")


TEXT_SUBCOMMANDS = {
    "mine": Subcommand(
        mine, "find the translations between two texts, a sentence a line", _mine_arguments, Use.DOCUMENTS
    ),
    "dedup": Subcommand(dedup, "find lines that say the same, in whatever language", _dedup_arguments, Use.DOCUMENTS),
}
