"""The `crosslet` command: parses the command line, and runs subcommands of the service or of other packages."""

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import FrameType
from typing import Any

from service.cli.arguments import Subcommand
from service.cli.doctor import DOCTOR
from service.cli.encode import EMBED, INFO, SIMILARITY
from service.cli.index import INDEX_SUBCOMMANDS
from service.cli.mcp import MCP
from service.cli.mining import DEDUP, MINE
from service.cli.search import RERANK, SEARCH
from service.cli.serve import serve
from service.cli.settings import SETTINGS, setting_options, settings_of
from service.cli.start_trial import Use, try_start
from service.cli.table import one_line
from service.errors import CrossletError
from service.process.address_space import WORKING_BYTES, check_start
from service.spelling import Parser
from service.version import VERSION

PLUGIN_GROUP = "crosslet.commands"  # name -> function(argv) -> exit status
REFUSED = 2

EPILOG = "`crosslet settings` lists the settings that the environment can change."
SUBCOMMANDS = {
    "serve": Subcommand(serve, "serve over HTTP", use=Use.SERVE),
    "embed": EMBED,
    "similarity": SIMILARITY,
    "search": SEARCH,
    "rerank": RERANK,
    "info": INFO,
    "mcp": MCP,
    "settings": SETTINGS,
    "doctor": DOCTOR,
    **INDEX_SUBCOMMANDS,
    "mine": MINE,
    "dedup": DEDUP,
}
GROUPS = {"index": "load, export, check and back up local documents"}  # first words of commands that have two


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Return the exit status: 0, or 2 after one sentence on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams()
    speak_utf8()
    _end_on_signals(is_server=arguments[:1] in (["serve"], ["mcp"]))
    plugins = {plugin.name: plugin for plugin in entry_points(group=PLUGIN_GROUP)}
    if arguments and arguments[0] in plugins:
        try:
            run: Callable[[list[str]], int] = plugins[arguments[0]].load()
            return run(arguments[1:])
        except ModuleNotFoundError as exc:
            return _refused(f"{arguments[0]} needs {exc.name}: `make setup-dev` in a checkout installs it")
        except KeyboardInterrupt:  # torch takes seconds to load
            return _refused("stopped")
    there = sorted(name for name, plugin in plugins.items() if find_spec(plugin.module.partition(".")[0]))
    try:
        try:
            options = _parser(there).parse_args(arguments)
        finally:
            sys.stdout.flush()  # the text of --help, before SystemExit: a write that fails is reported
        _run(options)
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


def open_closed_streams() -> None:
    """Replace standard streams that are closed (`>&-`): stdin is empty, stderr is discarded, writing to stdout fails.

    Otherwise the next file or socket would get the stream's number, and receive what libraries print to it.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):  # 1: read-only, so that writing fails
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def speak_utf8() -> None:
    """Read and write UTF-8 whatever the locale or PYTHONIOENCODING says: other encodings lack most letters.

    Bytes that are not UTF-8 are read as lone surrogates, as in arguments, so that an error can name the line; a path
    that has some is written with escapes.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def give_up_standard_output() -> None:
    """Redirect standard output to /dev/null: Python's flush at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(options: argparse.Namespace) -> None:
    subcommand = SUBCOMMANDS[options.command]
    settings = settings_of(options)
    if subcommand.use is not None and getattr(options, "url", None) is None:  # a service has loaded it
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
    print(f"crosslet: {one_line(sentence)}", file=sys.stderr)  # it may quote a service's answer
    return REFUSED


def _parser(plugins: Sequence[str]) -> Parser:
    """Return the parser of all commands; `command` of what it parses is the command's name.

    plugins: commands of other packages.
    """
    others = "\n\ncommands of other packages:\n" + "".join(f"  crosslet {name}\n" for name in plugins)
    parser = Parser(
        prog="crosslet",
        description="Small cross-lingual sentence encoders, served from little memory.",
        epilog="`crosslet COMMAND --help` shows the options of a command.\n" + EPILOG + (others if plugins else ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.others = plugins
    parser.add_argument("-V", "--version", action="version", version=f"crosslet {VERSION}")
    groups: dict[str, Any] = {"": _commands_of(parser)}
    for command, subcommand in SUBCOMMANDS.items():
        group, _, name = command.rpartition(" ")
        if group not in groups:
            help_ = GROUPS[group]
            groups[group] = _commands_of(groups[""].add_parser(group, help=help_, description=_sentence(help_)))
        description = _sentence(subcommand.help)
        subparser = groups[group].add_parser(name, help=subcommand.help, description=description, epilog=EPILOG)
        subparser.set_defaults(command=command)
        for names, options in [*subcommand.arguments, *setting_options(_settings_used(command, subcommand))]:
            subparser.add_argument(*names, **options)
    return parser


def _commands_of(parser: argparse.ArgumentParser) -> Any:
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _settings_used(command: str, subcommand: Subcommand) -> list[str]:
    """Return the settings that are options of a command: those that it uses."""
    has_model = subcommand.use is not None or command in {"info", "doctor"}
    has_data = command in {"serve", "search", "mcp", "doctor"} or command.startswith("index ")
    return ["model"] * has_model + ["data"] * has_data + ["host", "port"] * (command in {"serve", "doctor"})


def _sentence(help_: str) -> str:
    return f"{help_[:1].upper()}{help_[1:]}."
