"""Runs `crosslet` in this process, with the tiny model and a data folder of the test's own."""

import sqlite3
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from service.cli import main as cli
from service.settings import Settings


class Printed(NamedTuple):
    """What a command wrote to standard output and standard error."""

    out: str
    err: str


class Crosslet(Protocol):
    """Runs a command that ends with the given status."""

    def __call__(self, *arguments: object, status: int = 0) -> Printed: ...


@pytest.fixture
def local(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the tiny model, a data folder and two workers for the commands of a test."""
    monkeypatch.setenv("CROSSLET_MODEL", str(tiny_model))
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CROSSLET_WORKERS", "2")


@pytest.fixture
def crosslet(capsys: pytest.CaptureFixture[str]) -> Crosslet:
    """Return what runs a command."""

    def run(*arguments: object, status: int = 0) -> Printed:
        try:
            ended: object = cli.main([str(argument) for argument in arguments])
        except SystemExit as exc:  # of argparse: --help, or wrong usage
            ended = exc.code
        printed = Printed(*capsys.readouterr())
        assert ended == status, printed.err
        return printed

    return run


def build(crosslet: Crosslet, path: Path, *options: str) -> str:
    """Load a file with `index build`, and return the sentence that it ends with."""
    return crosslet("index", "build", path, *options).err.splitlines()[-1]


def damage(statement: str, *values: bytes) -> None:
    """Change the store behind its back."""
    with sqlite3.connect(Settings().documents_path) as connection:
        connection.execute(statement, values)
    connection.close()
