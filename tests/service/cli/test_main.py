import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.cli import main as cli
from service.document_index import load_collection
from service.documents.document import Document
from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from service.runtime import load_runtime
from service.settings import Settings
from tests.artifacts import DIM, TEXTS, write_manifest
from tests.reranker_artifact import build_reranker
from tests.service.cli.conftest import Crosslet
from tests.service.cli.terminal import COMMAND

pytestmark = pytest.mark.usefixtures("local")

SEEN: list[list[str]] = []


def remember(argv: list[str]) -> int:
    SEEN.append(argv)
    return 7


def need_a_package(_: list[str]) -> int:
    import no_such_package  # noqa: F401

    return 0


Plug = Callable[[str], None]


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Plug:
    """Make a function the command `evaluate`, as an installed package does."""

    def plug(function: str) -> None:
        plugin = EntryPoint("evaluate", function, cli.PLUGIN_GROUP)
        monkeypatch.setattr(cli, "entry_points", lambda group: EntryPoints([plugin]).select(group=group))

    return plug


def put(documents: list[Document], vectors_ND: np.ndarray) -> None:
    collection = load_collection(Settings(), load_encoder(Settings().model).manifest)
    collection.put(documents, vectors_ND)
    collection.close()


def test_embed_prints_one_vector_a_text(crosslet: Crosslet, tiny_model: Path) -> None:
    rows = [json.loads(line) for line in crosslet("embed", *TEXTS[:2]).out.splitlines()]
    encoder = load_encoder(tiny_model)
    for text, row in zip(TEXTS[:2], rows, strict=True):
        assert np.array_equal(np.asarray(row, np.float32), encoder.encode(text).vector)


def test_embed_reads_lines_from_standard_input(crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hallo\n\nguitar\r\n"))
    assert len(crosslet("embed").out.splitlines()) == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xff\n", "standard input line 1 is not valid UTF-8\n"),
        (b"\xef\xbb\xbf\nhallo\n\n\xff\n", "standard input line 4 is not valid UTF-8\n"),
        ("hallo\n".encode("utf-16"), "standard input is UTF-16 by its byte-order mark; crosslet reads UTF-8"),
        (b"hallo\n" + b"a" * 200_000, "standard input line 2 has 200000 characters; the limit is 100000"),
    ],
)
def test_a_line_of_standard_input_that_is_no_text_is_named(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, content: bytes, complaint: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
    assert crosslet("embed", status=2).err.startswith(f"crosslet: {complaint}")


EMPTY = "is empty; every text needs at least one character"
LONG = "has 5 characters; the limit is 4 (CROSSLET_MAX_TEXT_CHARS)"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["embed", ""], f"text 1 {EMPTY}"),
        (["embed", "hall", ""], f"text 2 {EMPTY}"),
        (["search", ""], f"the query {EMPTY}"),
        (["embed", "\udcff"], "text 1 is not valid UTF-8"),
        (["embed", "hallo"], f"text 1 {LONG}"),
        (["search", "hallo"], f"the query {LONG}"),
    ],
)
def test_a_text_is_refused_as_over_http(
    arguments: list[str], complaint: str, crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSLET_MAX_TEXT_CHARS", "4")
    assert crosslet(*arguments, status=2).err == f"crosslet: {complaint}\n"


def test_output_is_utf_8_in_any_locale(tiny_model: Path) -> None:
    encoder, text = load_encoder(tiny_model), "Größe 😀 日本語"
    put([Document("ü", text, {})], encoder.encode(text).vector[None])
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run([*COMMAND, "search", "hallo"], env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout.decode())["text"] == text
    read = subprocess.run([*COMMAND, "embed"], env=environment, input=text.encode(), capture_output=True, check=True)
    assert np.array_equal(np.asarray(json.loads(read.stdout), np.float32), encoder.encode(text).vector)


@pytest.mark.parametrize("arguments", [["info"], ["embed", "hallo"], ["--help"]])
def test_a_closed_output_is_one_sentence(arguments: list[str]) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "crosslet: standard output cannot be written completely (Bad file descriptor)\n"


def test_a_closed_input_is_empty_and_a_closed_error_is_nowhere() -> None:
    closed_input = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "embed"], capture_output=True, check=True
    )
    assert (closed_input.stdout, closed_input.stderr) == (b"", b"")
    closed_error = ["sh", "-c", 'exec "$@" 2>&-', "sh", *COMMAND, "embed", ""]
    assert subprocess.run(closed_error, capture_output=True, check=False).returncode == 2


def test_no_file_of_a_command_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """What a native library says on standard error would be written into it."""
    script = """
import os
from service.cli import main as cli
from service.cli.arguments import Subcommand
def report(*_):
    with open("report", "w") as file:
        file.write(f"{file.fileno()} {[os.readlink(f'/proc/self/fd/{number}') for number in (0, 1, 2)]}")
cli.SUBCOMMANDS["info"] = Subcommand(report, "says which number its file has")
cli.main(["info"])
"""
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script]
    root = Path(__file__).resolve().parents[3]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)}, check=True)
    number, _, streams = (tmp_path / "report").read_text().partition(" ")
    assert int(number) > 2
    assert streams == str(["/dev/null"] * 3)


def test_search_reads_the_store_beside_a_service(crosslet: Crosslet, tiny_model: Path) -> None:
    settings, encoder = Settings(), load_encoder(tiny_model)
    serving = load_collection(settings, encoder.manifest)
    vectors = np.stack([encoder.encode(text).vector for text in TEXTS[:2]])
    serving.put([Document(str(n), text, {"n": n}) for n, text in enumerate(TEXTS[:2])], vectors)
    assert json.loads(crosslet("search", TEXTS[1], "--top-k", "1").out)["text"] == TEXTS[1]
    assert json.loads(crosslet("search", TEXTS[1], "--filter", '{"n": 0}').out)["id"] == "0"
    assert (
        "filter: a whole number is beyond 64 bits"
        in crosslet("search", TEXTS[1], "--filter", f'{{"n": {2**64}}}', status=2).err
    )
    serving.close()


def test_search_by_keywords_finds_a_word_and_nothing_else(crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch) -> None:
    put([Document("1", "Kettle WK-1702", {}), Document("2", "Toaster", {})], np.eye(2, DIM, dtype=np.float32))
    (line,) = crosslet("search", "wk1702", "--mode", "keywords").out.splitlines()
    assert json.loads(line)["id"] == "1"
    monkeypatch.setenv("CROSSLET_SEARCH_MODE", "keywords")
    assert crosslet("search", "nothing of it").out == ""


@pytest.mark.parametrize("arguments", [["search", "hallo"], ["index", "stats"], ["mine", "{}", "{}"]])
def test_a_file_that_the_system_refuses_is_one_sentence(
    arguments: list[str], crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "x" * 300  # no file system here has such
    monkeypatch.setenv("CROSSLET_DATA", name)
    said = crosslet(*[argument.format(name) for argument in arguments], status=2).err
    assert said.startswith("crosslet: ")
    assert "cannot be read (File name too long)" in said


def test_info_tells_a_reranker_from_an_encoder(tmp_path: Path, crosslet: Crosslet) -> None:
    facts = json.loads(crosslet("info").out)
    assert (facts["name"], facts["kind"]) == ("tiny", "bi-encoder")
    build_reranker(tmp_path / "reranker")
    facts = json.loads(crosslet("info", tmp_path / "reranker").out)
    assert (facts["name"], facts["kind"]) == ("tiny-reranker", "cross-encoder")
    assert not facts.keys() & {"dim", "prompts", "spaces"}
    assert "none does not exist" in crosslet("info", tmp_path / "none", status=2).err
    assert "other does not exist" in crosslet("info", "--model", tmp_path / "other", status=2).err


@pytest.mark.parametrize("arguments", [["serve"], ["embed", "hallo"], ["search", "hallo"]])
def test_a_model_with_token_ids_beyond_its_table_is_one_sentence(
    arguments: list[str], tiny_model: Path, tmp_path: Path
) -> None:
    load_collection(Settings(), load_encoder(tiny_model).manifest).close()
    folder = Path(shutil.copytree(tiny_model, tmp_path / "longer"))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["kaputt"])
    tokenizer.save(str(folder / "tokenizer.json"))
    write_manifest(folder)
    command = [*COMMAND, *arguments, "--model", str(folder)]
    done = subprocess.run(command, env=os.environ | {"CROSSLET_PORT": "0"}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"crosslet: {folder}: tokenizer.json has token ids up to ")
    assert done.stdout == ""


def test_another_package_can_add_a_subcommand(crosslet: Crosslet, plug: Plug) -> None:
    plug("tests.service.cli.test_main:remember")
    crosslet("evaluate", "--fast", status=7)
    assert SEEN == [["--fast"]]
    assert "crosslet evaluate" in crosslet("--help").out


def test_command_of_a_missing_package_says_what_installs_it(crosslet: Crosslet, plug: Plug) -> None:
    plug("no_such_package:main")
    sentence = "crosslet: evaluate needs no_such_package: `make setup-dev` in a checkout installs it\n"
    assert crosslet("evaluate", status=2).err == sentence
    assert "evaluate" not in crosslet("--help").out
    plug("tests.service.cli.test_main:need_a_package")  # missing at run time
    assert crosslet("evaluate", status=2).err == sentence


def rows(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def test_rerank_prints_the_lines_that_a_service_would_put_first(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_reranker: Path
) -> None:
    query, texts, passages = "Who plays the guitar?", [*TEXTS, TEXTS[0]], tmp_path / "passages.txt"
    passages.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    for reranker, weight in ((None, "0.2"), (tiny_reranker, "0.2"), (tiny_reranker, "alone")):
        monkeypatch.setenv("CROSSLET_RERANKER", "" if reranker is None else str(reranker))
        monkeypatch.setenv("CROSSLET_RERANK_WEIGHT", weight)
        reranked = rows(crosslet("rerank", query, passages, "--top-k", "4").out)
        with TestClient(create_app(load_runtime(Settings())), base_url="http://localhost") as client:
            found = client.post("/rerank", json={"query": query, "texts": texts, "return_text": True}).json()[:4]
        expected = [{"line": 2 * one["index"] + 1, "score": one["score"], "text": one["text"]} for one in found]
        assert reranked == expected


def test_rerank_reads_texts_of_jsonl_and_windows_of_long_ones(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_reranker: Path
) -> None:
    monkeypatch.setenv("CROSSLET_RERANKER", str(tiny_reranker))
    monkeypatch.setenv("CROSSLET_RERANK_WEIGHT", "alone")
    texts = [" ".join(TEXTS), "hallo"]
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    reranker = Reranker.load(tiny_reranker)
    for option, parts in (
        ([], [[reranker.tokenize("guitar", text)] for text in texts]),
        (["--windows"], [reranker.windows("guitar", text) for text in texts]),
    ):
        scores = {row["text"]: row["score"] for row in rows(crosslet("rerank", "guitar", path, *option).out)}
        assert [scores[text] for text in texts] == [max(map(reranker.score, part)) for part in parts]


def test_rerank_refuses_what_is_no_passage_in_one_sentence(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_model: Path
) -> None:
    path = tmp_path / "passages.txt"
    path.write_bytes(b"hallo\n\xff\n")
    assert crosslet("rerank", "a", path, status=2).err == f"crosslet: {path} line 2 is not valid UTF-8\n"
    assert "the query is empty" in crosslet("rerank", "", path, status=2).err
    path.write_bytes(b"")
    assert crosslet("rerank", "a", path).out == ""
    monkeypatch.setenv("CROSSLET_RERANKER", str(tiny_model))
    assert "CROSSLET_RERANKER takes a re-ranker" in crosslet("rerank", "a", path, status=2).err
