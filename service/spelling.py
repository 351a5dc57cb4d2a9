"""What a mistyped name, option or command may mean. Imports nothing slow."""

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar name, ignoring case; None if none is near."""
    by_lower = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean NAME?` with the nearest name, or nothing if none is near."""
    near = nearest(name, names)
    return f"; did you mean {near}?" if near else ""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that names the option or command nearest to an unknown one."""

    others: Sequence[str] = ()  # commands parsed elsewhere

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the base class; an unknown option of a command is named before anything that is missing."""
        given = list(sys.argv[1:] if args is None else args)
        self._check_options(given)
        return super().parse_known_args(given, namespace)

    def _check_options(self, given: Sequence[str]) -> None:
        known = list(self._option_string_actions)
        for argument in given:
            if argument == "--" or (self._subparsers is not None and not argument.startswith("-")):
                return  # what follows is no option, or a command's
            name = argument.partition("=")[0]
            is_option = name.startswith("--") and " " not in argument  # with a space it is a text, for argparse too
            if is_option and not any(option.startswith(name) for option in known):
                self.error(f"{name} is no option of `{self.prog}`{did_you_mean(name, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            is_command = isinstance(action, argparse._SubParsersAction)
            names = [*map(str, action.choices), *(self.others if is_command else ())]
            what = "command" if is_command else "choice"
            raise argparse.ArgumentError(
                None if is_command else action,
                f"{str(value)!r} is no {what}{did_you_mean(str(value), names) or '; one of ' + ', '.join(names)}",
            )
