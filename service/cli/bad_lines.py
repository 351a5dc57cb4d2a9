"""What commands that read a file of documents do with a line that is none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.errors import InvalidInput

if TYPE_CHECKING:
    from service.offline.loading import Outcome


def on_bad_line(policy: str, name: str) -> Callable[[str], None]:
    """Return what to call with a line and the reason.

    policy: stop, which raises InvalidInput, or skip, which tells it.  name: of the file.
    """
    return (lambda sentence: _skip(name, sentence)) if policy == "skip" else _stop


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the file's name before errors about a line."""
    try:
        yield
    except InvalidInput as exc:
        raise InvalidInput(f"{name}: {exc}") from exc


def check_any_good(outcome: "Outcome", name: str) -> None:
    """Raises: InvalidInput: every line of the file was skipped."""
    if outcome.skipped and not (outcome.total or outcome.failed):
        raise InvalidInput(f"{name}: none of its {outcome.skipped} lines is a document; is it of another format?")


def _stop(sentence: str) -> None:
    raise InvalidInput(f"{sentence} (skip bad lines with --on-bad-line skip)")


def _skip(name: str, sentence: str) -> None:
    from service.offline.output import tell

    tell(f"skipped {name}: {sentence}")
