"""What a subcommand of `crosslet` is, and how its arguments are read. Knows argparse; knows no subcommand."""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from service.cli.start_trial import Use
from service.json_parsing import loads
from service.settings import Settings


@dataclass(frozen=True)
class Subcommand:
    """One of the service's own subcommands."""

    run: Callable[[argparse.Namespace, Settings], None]
    help: str
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    use: Use | None = None  # of the model; None: it is not loaded


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def finite(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from exc
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def json_object(text: str) -> dict[str, object]:
    """An object in JSON."""
    try:
        value = loads(text.encode(errors="surrogateescape"))
    except orjson.JSONDecodeError as exc:
        raise argparse.ArgumentTypeError("not valid JSON") from exc
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


def prompt_argument(parser: argparse.ArgumentParser, default: str = "its default one, if it has one") -> None:
    """The option of commands that embed texts of no fixed kind."""
    parser.add_argument("--prompt-name", metavar="NAME", help=f"the model's prompt to put before each text ({default})")


def out_argument(parser: argparse.ArgumentParser) -> None:
    """The option of commands that write much."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write (standard output)")
