"""Every example runs by the command in its head, against a real service, and says what it should."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.live import live_service
from tests.skeleton.project import ROOT

EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
SAID = {
    "openai_client.py": [r"0\.[6-9]\d  Where is my parcel\? \| Wo ist mein Paket\?", r"-?0\.[0-3]\d  .*bread\?"],
    "langchain_search.py": ["embeddings: Wie kann ich mein Passwort.*", "retriever: Livrez-vous en Suisse.*"],
    "llama_index_search.py": ["embeddings: Wie kann ich mein Passwort.*", "retriever: Livrez-vous en Suisse.*"],
    "faq_bot.py": ["Choose “Forgot password” on the sign-in page."],
    "catalogue.py": ["  89  de  Wasserdichte Jacke mit Kapuze, für Damen WJ-210", r" +\d+  .*", r" +\d+  .*"],
    "which_text.py": [r"[\w ,]+ +\d+\.\d %  of 226 questions"] * 4,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with live_service(ROOT / "models/default", tmp_path_factory.mktemp("store")) as client:
        yield client


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in which the documented commands find examples, data and this environment."""
    for name in ("examples", "training"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv-dev").symlink_to(sys.prefix)
    return tmp_path


def command(example: str) -> list[str]:
    head = (ROOT / "examples" / example).read_text(encoding="utf-8")
    (line,) = re.findall(rf"(?m)^(\.venv-dev/bin/python examples/{re.escape(example)}.*)$", head)
    return shlex.split(line)


def run(arguments: list[str], checkout: Path, service: httpx.Client) -> list[str]:
    environment = os.environ | {"CROSSLET_URL": str(service.base_url).rstrip("/"), "LANGSMITH_TRACING": "false"}
    done = subprocess.run(
        arguments, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.slow  # the frameworks take seconds to import
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_does_what_its_head_says(example: str, checkout: Path, service: httpx.Client) -> None:
    documents = service.get("/documents", params={"limit": 1000}).json()["documents"]
    service.post("/documents/delete", json={"ids": [one["id"] for one in documents] or ["none"]})  # of other examples
    lines = run(command(example), checkout, service)
    assert len(lines) == len(SAID[example]), lines
    for line, pattern in zip(lines, SAID[example], strict=True):
        assert re.fullmatch(pattern, line), line


@pytest.mark.slow
def test_the_bot_says_that_it_does_not_know(checkout: Path, service: httpx.Client) -> None:
    program, path, _ = command("faq_bot.py")
    assert run([program, path, "Wer gewann 1954 die Weltmeisterschaft?"], checkout, service) == [
        "I do not know. A colleague will answer."
    ]
    (known,) = run([program, path, "返品するにはどうすればいいですか"], checkout, service)
    assert known.startswith("Send it back within 30 days")


@pytest.mark.slow
def test_a_code_finds_its_product(checkout: Path, service: httpx.Client) -> None:
    program, path, *_ = command("catalogue.py")
    assert "KT-660" in run([program, path, "KT-660", "1000"], checkout, service)[0]


def test_the_list_of_examples_has_each() -> None:
    page = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    listed = re.findall(r"\[(\S+)\]\(\1\)", page)
    assert sorted(listed) == sorted(
        path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".sh")
    )
