"""The `crosslet` command: the service's subcommands, and those of other packages by entry point."""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import get_args

from pydantic import ValidationError

from service.bulk.output import give_up_standard_output
from service.cli import serve as commands
from service.cli.arguments import Subcommand, json_object, positive, prompt_argument
from service.cli.index import INDEX_SUBCOMMANDS
from service.cli.start_trial import Use, try_start
from service.cli.text import TEXT_SUBCOMMANDS
from service.documents.mode import Mode
from service.errors import CrossletError, StartError
from service.process.address_space import WORKING_BYTES, check_start
from service.process.standard_streams import open_closed_streams, speak_utf8
from service.settings import Settings
from service.version import VERSION

PLUGIN_GROUP = "crosslet.commands"  # name -> function(argv) -> exit status
REFUSED = 2


def _texts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="texts; without any, the lines of standard input, except blank ones"
    )
    prompt_argument(parser)
    parser.add_argument("--space", metavar="NAME", help="space of another model to map vectors into (the model's own)")


def _query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="text to search for, in any language of the model")
    parser.add_argument("--top-k", type=positive, default=10, help="number of documents to print (10)")
    parser.add_argument("--filter", type=json_object, help="conditions on the metadata, as JSON")
    parser.add_argument("--mode", choices=get_args(Mode), help="how to find them (CROSSLET_SEARCH_MODE)")
    prompt_argument(parser, "the one named query, if any")


def _passages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="what is looked for")
    parser.add_argument("file", type=Path, metavar="FILE", help="a passage a line, or .jsonl with a text in each")
    parser.add_argument("--top-k", type=positive, default=10, help="how many passages to show (10)")
    parser.add_argument("--windows", action="store_true", help="score a long passage by the best of its windows")


def _artifact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="of an encoder or a re-ranker (the one of --model)"
    )


SUBCOMMANDS = {
    "serve": Subcommand(commands.serve, "serve over HTTP", use=Use.SERVE),
    "embed": Subcommand(commands.embed, "print the vectors of texts, one JSON line each", _texts, Use.EMBED),
    "search": Subcommand(commands.search, "search the documents, without a server", _query, Use.DOCUMENTS),
    "rerank": Subcommand(
        commands.rerank, "put the lines of a file in order by how well they answer a query", _passages, Use.RERANK
    ),
    "info": Subcommand(commands.info, "print what a model is", _artifact),
    **INDEX_SUBCOMMANDS,
    **TEXT_SUBCOMMANDS,
}
GROUPS = {"index": "load, export, check, back up the local documents"}  # groups of subcommands with a name of two words


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Return the exit status: 0, or 2 after one sentence on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams()
    speak_utf8()
    _end_on_signals(is_server=arguments[:1] == ["serve"])
    plugins = {plugin.name: plugin for plugin in entry_points(group=PLUGIN_GROUP)}
    if arguments and arguments[0] in plugins:
        try:
            run: Callable[[list[str]], int] = plugins[arguments[0]].load()
        except ModuleNotFoundError as exc:
            return _refused(f"{arguments[0]} needs {exc.name}: `make setup-dev` in a checkout installs it")
        except KeyboardInterrupt:  # torch takes seconds to load
            return _refused("stopped")
        return run(arguments[1:])
    there = [name for name, plugin in plugins.items() if find_spec(plugin.module.partition(".")[0])]
    try:
        _run(_parsed(_parser(there), arguments))
        sys.stdout.flush()
    except CrossletError as exc:
        return _refused(str(exc))
    except KeyboardInterrupt:
        return _refused("stopped")
    except MemoryError:
        return _refused("there is not enough memory for this command; see `ulimit -v`")
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        give_up_standard_output()
    except OSError as exc:
        if exc.errno not in {errno.ENOSPC, errno.EBADF}:
            return _refused(f"{exc.filename} cannot be used ({exc.strerror})" if exc.filename else str(exc))
        give_up_standard_output()
        return _refused(f"standard output cannot be written completely ({exc.strerror})")
    return 0


def _parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Parse the options. Flushes the text of --help, so that a failing write is reported."""
    try:
        return parser.parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()
        raise


def _run(options: argparse.Namespace) -> None:
    subcommand = SUBCOMMANDS[options.command]
    settings = _settings(options.model)
    if subcommand.use is not None:
        load = partial(try_start, settings, subcommand.use)
        check_start(load, room_bytes=settings.working_bytes if subcommand.use is Use.SERVE else WORKING_BYTES)
    subcommand.run(options, settings)


def _end_on_signals(*, is_server: bool) -> None:
    """Exit cleanly on SIGTERM and SIGHUP (the terminal closes) until uvicorn installs its own handlers.

    Without handlers, the first process of a container would ignore them. Under `nohup` SIGHUP stays ignored.
    """
    handler = _end_start if is_server else signal.default_int_handler
    signal.signal(signal.SIGTERM, handler)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, handler)


def _end_start(_signal: int, _frame: FrameType | None) -> None:
    os._exit(0)  # no exception: libraries being imported might swallow it. The store is consistent at any time


def _refused(sentence: str) -> int:
    print(f"crosslet: {sentence}", file=sys.stderr)
    return REFUSED


def _parser(plugins: Iterable[str]) -> argparse.ArgumentParser:
    others = "".join(f"  crosslet {name}\n" for name in sorted(plugins))
    parser = argparse.ArgumentParser(
        prog="crosslet",
        description="Small cross-lingual sentence encoders, served from little memory.",
        epilog=f"commands of other packages:\n{others}" if others else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"crosslet {VERSION}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    of_group = {
        name: subparsers.add_parser(name, help=help_, description=help_).add_subparsers(
            metavar="COMMAND", required=True
        )
        for name, help_ in GROUPS.items()
    }
    for command, subcommand in SUBCOMMANDS.items():
        *group, name = command.split()
        subparser = (of_group[group[0]] if group else subparsers).add_parser(
            name,
            help=subcommand.help,
            description=subcommand.help,
            epilog=_settings_help(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subparser.set_defaults(command=command)
        subparser.add_argument("--model", type=Path, help="folder of the artifact (CROSSLET_MODEL)")
        subcommand.arguments(subparser)
    return parser


def _settings_help() -> str:
    fields = Settings.model_fields.items()
    return "settings, from the environment:\n" + "\n".join(
        f"  CROSSLET_{name.upper()}: {field.description}" for name, field in fields
    )


def _settings(model: Path | None) -> Settings:
    """Read the settings from the environment; `--model` takes precedence.

    Raises: StartError: a setting is invalid; the message names it.
    """
    try:
        return Settings() if model is None else Settings(model=model)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        name = f"CROSSLET_{str(first['loc'][0]).upper()}: " if first["loc"] else ""
        raise StartError(f"{name}{first['msg'].removeprefix('Value error, ')}") from exc
