"""`crosslet corpora list | fetch`: list and download the known corpora."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from training.config.run import load_config
from training.corpora.catalog import load_catalog
from training.corpora.fetch import ensure_sources, fetch_source, languages_there
from training.errors import TrainingError
from training.system.command import exit_status

MAX_WIDTH = 34  # of a column


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns: 0 when done, 2 after an error, told in one sentence, 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return exit_status(
        lambda: print(table(options.data)) if options.command == "list" else _fetch(options),
        stopped="stopped; run the same command to go on",
        kept=" (finished files are kept; run the same command to go on)",
    )


def table(data: Path | None) -> str:
    """Return a line for each source: name, licence, languages to fetch, languages that the data folder has, title."""
    rows = [("NAME", "LICENCE", "TO FETCH", "THERE", "WHAT IT IS")]
    for name, source in load_catalog().items():
        offered = _short(source.languages) if source.files is not None else "-"
        there = _short(languages_there(name, source, data)) if data is not None else "?"
        rows.append((name, source.licence, offered, there, source.title))
    widths = [min(MAX_WIDTH, max(map(len, column))) for column in list(zip(*rows, strict=True))[:4]]
    lines = []
    for *cells, title in rows:
        cut = [
            text if len(text) <= width else f"{text[: width - 1]}…" for text, width in zip(cells, widths, strict=True)
        ]
        padded = [text.ljust(width) for text, width in zip(cut, widths, strict=True)]
        lines.append("  ".join([*padded, title]).rstrip())
    return "\n".join(lines)


def _short(languages: list[str]) -> str:
    return " ".join(languages) if len(languages) < 10 else f"{len(languages)} languages"


def _fetch(options: argparse.Namespace) -> None:
    languages = [language for language in options.languages.split(",") if language]
    if options.config is not None:
        config = load_config(options.config)
        languages = languages or config.languages
        on_bad_line = options.on_bad_line or config.corpus.on_bad_line
        corpus = config.corpus.model_copy(update={"fetch": True, "on_bad_line": on_bad_line})
        ensure_sources(corpus, languages, options.data)
    elif not options.names or not languages:
        raise TrainingError("say what to fetch: names and --languages de,fr, or --config CONFIG")
    for name in options.names:
        fetch_source(name, languages, options.data, on_bad_line=options.on_bad_line or "stop")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="crosslet corpora", description="Parallel text and evaluation sets.")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="list the known corpora, their licences and what DATA has of them")
    listing.add_argument("--data", type=Path, help="the data folder to look in")
    fetching = commands.add_parser("fetch", help="download and convert; run again to resume")
    fetching.add_argument("names", nargs="*", metavar="NAME", help="of a source in the catalogue")
    fetching.add_argument("--languages", default="", metavar="de,fr", help="besides English")
    fetching.add_argument("--data", type=Path, required=True, help="the data folder")
    fetching.add_argument("--config", type=Path, help="fetch what this training configuration reads")
    fetching.add_argument(
        "--on-bad-line", choices=["stop", "skip"], help="for a line that is not a pair; default: CONFIG's, or stop"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
