"""`crosslet settings`, and the settings that commands take as options."""

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import SecretStr, ValidationError

from service.cli.arguments import Argument, Subcommand, argument, json_option
from service.cli.table import print_json, terminal_columns, wants_table
from service.errors import StartError
from service.settings import PREFIX, Settings, unknown_settings

HIDDEN = "(hidden)"
METAVARS = {"model": "FOLDER", "data": "FOLDER", "host": "ADDRESS", "port": "PORT"}  # the settings that are options
INDENT = " " * 4


def print_settings(options: argparse.Namespace, settings: Settings) -> None:
    """Print each setting: name, value in force, default, meaning. Of secrets only whether they are set."""
    as_table, width = wants_table(options), max(terminal_columns(), 40)
    for field_name, field in Settings.model_fields.items():
        name, meaning = PREFIX + field_name.upper(), str(field.description)
        value, default = _plain(getattr(settings, field_name)), _plain(field.default)
        if not as_table:
            print_json({"name": name, "value": value, "default": default, "meaning": meaning})
            continue
        changed = "" if value == default else f"  (default: {_written(default)})"
        sys.stdout.write(f"{name} = {_written(value)}{changed}\n")
        sys.stdout.write(textwrap.fill(meaning, width, initial_indent=INDENT, subsequent_indent=INDENT) + "\n")
    sys.stdout.flush()  # before what standard error says
    for name, meant in unknown_settings().items() if as_table else ():
        way_out = f"; did you mean {meant}?" if meant else ""
        sys.stderr.write(f"crosslet: {name} is set, but is no setting{way_out}\n")


def setting_options(names: Iterable[str]) -> Iterator[Argument]:
    """Yield options that win over the environment."""
    for name in names:
        field = Settings.model_fields[name]
        fallback = "the bundled one" if name == "model" else str(field.default)
        meaning = str(field.description).split(";")[0].rstrip(".")
        yield argument(
            f"--{name}",
            type=_filled,
            metavar=METAVARS[name],
            help=f"{meaning[:1].lower()}{meaning[1:]} (default: {PREFIX}{name.upper()}, else {fallback})",
        )


def settings_of(options: argparse.Namespace) -> Settings:
    """Read the settings from the environment; the options of the command line win.

    Raises: StartError: a setting is invalid; the message names it, and the option if it came from one.
    """
    given = {name: value for name in METAVARS if (value := getattr(options, name, None)) is not None}
    try:
        return Settings(**given)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        place = ""
        if first["loc"]:
            name = str(first["loc"][0])
            place = f"--{name}: " if name in given else f"{PREFIX}{name.upper()}: "
        raise StartError(f"{place}{first['msg'].removeprefix('Value error, ')}") from exc


def _filled(text: str) -> str:
    if not text:  # an empty host would mean every address
        raise argparse.ArgumentTypeError("is empty; give a value, or leave the option out")
    return text


def _plain(value: object) -> object:
    """Return a value as JSON has it; None: nothing is set."""
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else None
    return str(value) if isinstance(value, Path) else None if value == "" else value


def _written(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


SETTINGS = Subcommand(print_settings, "list the settings with the values in force", [json_option(otherwise="text")])
