"""README's own-model lines, exactly as printed: from 800 pairs to a served model."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.contract.live import clean_environment, started
from tests.parallel_text import write_pairs
from tests.skeleton.project import ROOT, tracked_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
QUERIES = {
    "The old man sells the red car.": "Der alte Mann verkauft das rote Auto.",
    "Where can I buy a ticket?": "Wo kann ich eine Fahrkarte kaufen?",
    "My brother is ill.": "Mein Bruder ist krank.",
    "It will rain tomorrow.": "Morgen wird es regnen.",
}


def readme_lines() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?s)## Distil your own\n\n```sh\n(.+?)```", text)
    return block.splitlines()


def checkout(folder: Path) -> Path:
    """A copy of the tracked files, with this environment as both of the Makefile's."""
    for path in tracked_files():
        if path.is_file():
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    for name in (".venv", ".venv-dev"):
        (folder / name).mkdir()
        for part in Path(sys.prefix).iterdir():
            if part.name != ".installed":
                (folder / name / part.name).symlink_to(part)
        (folder / name / ".installed").touch()
    return folder


def environment(folder: Path) -> dict[str, str]:
    return clean_environment() | {"PYTHONPATH": str(folder)}


def run(line: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def end_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)


@contextmanager
def served(line: str, folder: Path) -> Iterator[httpx.Client]:
    command, options = ["bash", "-c", line], {"cwd": folder, "start_new_session": True}
    with started(command, environment(folder), stop=end_group, **options) as (client, _):
        yield client


def test_the_readmes_lines_give_a_model_that_finds_translations(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "crosslet")
    write_pairs(folder / "pairs.tsv", pairs=800)
    *before, serve = readme_lines()
    assert len(before) == 3
    said = [run(line, folder) for line in before]
    ending = said[1].splitlines()
    assert re.fullmatch(
        r"translation found first, of pairs held out of training: [\d.]+ \([\d.]+ before .+\)", ending[0]
    )
    after, start = map(float, re.findall(r"\d+\.\d", ending[0]))
    assert after >= max(90, start)
    assert re.fullmatch(r"model: runs/mine/final/checkpoint, \d+ MB", ending[1])
    assert ending[2] == f"next: {before[2]}"
    assert sum(file.stat().st_size for file in (folder / "models/mine").iterdir()) < 50e6
    with served(serve, folder) as client:
        assert client.get("/info").json()["model"] == "mine"
        texts = [*QUERIES.values(), "Das ist ein Buch.", "Der Zug ist voll."]
        documents = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
        assert client.put("/documents", json={"documents": documents}).status_code == 200
        for query, translation in QUERIES.items():
            found = client.post("/search", json={"query": query, "mode": "dense", "include": ["text"]}).json()[
                "results"
            ]
            assert found[0]["text"] == translation
    assert (folder / "data/mine/documents.sqlite3").exists()
