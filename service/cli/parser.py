"""Parses the command line of `crosslet`: a parser for each command."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from service.cli.arguments import Subcommand
from service.cli.settings import setting_arguments
from service.spelling import Parser
from service.version import VERSION

EPILOG = "`crosslet settings` lists the settings that the environment can change."


def parser_of(commands: Mapping[str, Subcommand], groups: Mapping[str, str], plugins: Iterable[str]) -> Parser:
    """Return the parser of all commands; `command` of what it parses is the command's name.

    Args:   groups: of commands with a name of two words, with what they do.  plugins: commands of other packages.
    """
    others = "".join(f"  crosslet {name}\n" for name in sorted(plugins))
    parser = Parser(
        prog="crosslet",
        description="Small cross-lingual sentence encoders, served from little memory.",
        epilog="`crosslet COMMAND --help` shows the options of a command.\n"
        + EPILOG
        + (f"\n\ncommands of other packages:\n{others}" if others else ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.others = sorted(plugins)
    parser.add_argument("-V", "--version", action="version", version=f"crosslet {VERSION}")
    top = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    of_group: dict[str, Any] = {}
    for command, subcommand in commands.items():
        *group, name = command.split()
        if group and group[0] not in of_group:
            help_ = groups[group[0]]
            group_parser = top.add_parser(group[0], help=help_, description=_sentence(help_))
            of_group[group[0]] = group_parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
        subparser = (of_group[group[0]] if group else top).add_parser(
            name,
            help=subcommand.help,
            description=_sentence(subcommand.help),
            epilog=EPILOG,
        )
        subparser.set_defaults(command=command)
        subcommand.arguments(subparser)
        setting_arguments(subparser, settings_used(command, subcommand))
    return parser


def parsed(parser: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options. Flushes the text of --help, so that a failing write is reported."""
    try:
        return parser.parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()
        raise


def settings_used(command: str, subcommand: Subcommand) -> list[str]:
    """The settings that are options of a command: those that it uses."""
    used = {
        "model": subcommand.use is not None or command == "info",
        "data": command in {"serve", "search"} or command.startswith("index "),
        "host": command == "serve",
        "port": command == "serve",
    }
    return [name for name, is_used in used.items() if is_used]


def _sentence(help_: str) -> str:
    return f"{help_[:1].upper()}{help_[1:]}."
