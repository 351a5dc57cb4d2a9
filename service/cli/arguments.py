"""What a subcommand of `crosslet` consists of, and the options and texts that several are given."""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from service.cli.start_trial import Use
from service.documents.milvus.address import EMBEDDED
from service.documents.names import DEFAULT_NAME
from service.documents.store.locking import holder_url
from service.errors import InvalidInput, StartError
from service.json_parsing import loads, not_unicode
from service.settings import Settings

UTF16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")  # byte-order marks, as Python decodes bytes that are not UTF-8

Argument = tuple[Sequence[str], Mapping[str, Any]]  # what `ArgumentParser.add_argument` takes


@dataclass(frozen=True)
class Subcommand:
    """A subcommand of the service."""

    run: Callable[[argparse.Namespace, Settings], None]
    help: str
    arguments: Sequence[Argument] = ()
    use: Use | None = None  # what the model is used for; None: it is not loaded


def argument(*names: str, **options: Any) -> Argument:
    """Declare an argument, as `ArgumentParser.add_argument` takes it."""
    return names, options


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def finite(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from exc
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def json_object(text: str) -> dict[str, object]:
    """Parse a JSON object."""
    content = text.encode(errors="surrogateescape")
    try:
        value = loads(content)
    except orjson.JSONDecodeError as exc:
        fault = not_unicode(content) or """not valid JSON; write it like '{"lang": "de"}'"""
        raise argparse.ArgumentTypeError(fault) from exc
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


def utf8(text: str) -> str:
    """Parse a name. Python decodes bytes that are not UTF-8 to lone surrogates, which no name has."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise argparse.ArgumentTypeError("not valid UTF-8")
    return text


def prompt_option(default: str = "the model's default prompt, if any") -> Argument:
    """Declare --prompt-name, for commands that embed texts. default: what is taken without it."""
    help_ = f"prompt of the model to prepend to each text (default: {default})"
    return argument("--prompt-name", type=utf8, metavar="NAME", help=help_)


def url_option(what: str) -> Argument:
    """Declare --url. what: the service is for."""
    return argument("--url", type=utf8, metavar="URL", help=f"{what}; with a key of CROSSLET_API_KEYS")


def json_option(otherwise: str = "a table") -> Argument:
    """Declare --json. otherwise: what is printed on a terminal without it."""
    return argument("--json", action="store_true", help=f"print JSON (default: {otherwise} on a terminal, else JSON)")


DEFAULT = "(default: %(default)s)"  # argparse puts it in
COLLECTION = argument(
    "--collection", type=utf8, default=DEFAULT_NAME, metavar="NAME", help=f"named set of documents {DEFAULT}"
)
ENGINE_HELP = f"embed here or on a Ray cluster {DEFAULT}"
ENGINE = argument("--engine", choices=["threads", "ray"], default="threads", help=ENGINE_HELP)
OUT = argument("--out", type=Path, metavar="FILE", help="file to write (default: standard output)")
URL = url_option("service to ask (default: the one that has the documents, if any)")
PATIENCE_S = 5.0  # with a service that is full or starts again


def running_service(settings: Settings) -> str | None:
    """Return where the service that has the local store answers; None: none has it, or the documents are in Milvus."""
    return (holder_url(settings.documents_path) or None) if settings.index == EMBEDDED else None


def local_store(settings: Settings) -> Path:
    """Return the path of the local store.

    Raises: StartError: the documents are in Milvus.
    """
    if settings.index != EMBEDDED:
        raise StartError("this command needs the documents in CROSSLET_DATA, but CROSSLET_INDEX names a Milvus")
    return settings.documents_path


def texts_of(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name for errors, text) of each given text, or of each non-blank line of standard input.

    Raises: InvalidInput: standard input is UTF-16.
    """
    if given:
        yield from ((f"text {number}", text) for number, text in enumerate(given, start=1))
        return
    for number, line in enumerate(sys.stdin, start=1):
        if number == 1 and line.startswith(UTF16_MARKS):
            raise InvalidInput("standard input is UTF-16 by its byte-order mark; crosslet reads UTF-8")
        if line.strip():
            yield f"standard input line {number}", line.rstrip("\r\n")


def readable(text: str, name: str, settings: Settings) -> str:
    """Return the text if it is within HTTP's limits and was UTF-8: Python decodes other bytes to lone surrogates.

    Raises: InvalidInput: it is empty, too long or not UTF-8.
    """
    if not text:
        raise InvalidInput(f"{name} is empty; every text needs at least one character")
    if len(text) > settings.max_text_chars:
        raise InvalidInput(
            f"{name} has {len(text)} characters; the limit is {settings.max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
        )
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{name} is not valid UTF-8") from exc
    return text


def readable_query(text: str, settings: Settings) -> str:
    """Return a query that is readable and has a visible character.

    Raises: InvalidInput: as `readable`, or it has invisible characters alone.
    """
    from service.api.schemas.embed import visible  # here: `crosslet serve` imports the schemas beside the model

    try:
        return visible(readable(text, "the query", settings))
    except ValueError as exc:
        raise InvalidInput(f"the query {exc}") from exc
