"""A progress bar on standard error (tqdm)."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never

from tqdm import tqdm

LOG_INTERVAL_S = 10  # in a log file every update is a new line


@contextmanager
def progress(name: str, *, total: int | None, unit: str) -> Iterator["tqdm[Never]"]:
    """Show a bar to `update`. total: None if unknown. unit: "B" is shown as KB, MB, GB."""
    interval_s = 0.1 if sys.stderr.isatty() else LOG_INTERVAL_S
    with tqdm(
        total=total, desc=name, unit=unit, unit_scale=unit == "B", mininterval=interval_s, file=sys.stderr
    ) as bar:
        yield bar


def tell(sentence: str) -> None:
    """Write a line to standard error, above the bar if there is one."""
    tqdm.write(f"crosslet: {sentence}", file=sys.stderr)
