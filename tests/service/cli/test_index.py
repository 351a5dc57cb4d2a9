import io
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from service.document_index import load_collection
from service.documents.document import Document
from service.model.encoder import load_encoder
from service.offline.reembed import take_over_ready
from service.settings import Settings
from tests.artifacts import DIM, TEXTS, build_artifact
from tests.service.cli.conftest import Crosslet, build, damage
from tests.service.cli.terminal import COMMAND
from tests.service.documents.oracle import search_one
from tests.service.offline.files import DOCUMENTS, read_jsonl, write_jsonl

pytestmark = pytest.mark.usefixtures("local")


def test_loaded_file_is_found_and_unchanged_when_loaded_again(crosslet: Crosslet, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    assert build(crosslet, path) == "12 documents read: 12 new, 0 replaced, 0 unchanged"
    for row in DOCUMENTS[:3]:
        found = json.loads(crosslet("search", row["text"], "--top-k", "1")[0])
        assert (found["id"], found["metadata"]) == (row["id"], row["metadata"])
        assert found["score"] == pytest.approx(1, abs=1e-5)
    revision = json.loads(crosslet("index", "stats")[0])["revision"]
    assert build(crosslet, path) == "12 documents read: 0 new, 0 replaced, 12 unchanged"
    assert json.loads(crosslet("index", "stats")[0])["revision"] == revision
    changed = [DOCUMENTS[0] | {"metadata": {"lang": "xx"}}, {"id": "new", "text": "x " * 50}]
    assert build(crosslet, write_jsonl(path, changed + DOCUMENTS[1:]), "--no-chunk") == (
        "13 documents read: 1 new, 1 replaced, 11 unchanged; of 1 the model read only the beginning"
    )


def test_a_file_of_bad_lines_alone_is_an_error(crosslet: Crosslet, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{}] * 300)
    error = crosslet("index", "build", path, "--on-bad-line", "skip", status=2)[1]
    assert "0 documents read: 0 new, 0 replaced, 0 unchanged, 300 bad lines skipped" in error
    said = f"crosslet: {path}: none of its 300 lines is a document; is it of another format?"
    assert error.splitlines()[-1] == said
    path.write_text("")
    assert build(crosslet, path) == "0 documents read: 0 new, 0 replaced, 0 unchanged"


def test_bad_lines_stop_the_build_or_are_skipped_as_told(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [DOCUMENTS[0], "{nope", {"id": "x", "text": ""}, DOCUMENTS[1]])
    error = crosslet("index", "build", path, status=2)[1]
    assert f"crosslet: {path}: line 2: is not valid JSON (skip bad lines with --on-bad-line skip)" in error
    error = crosslet("index", "build", path, "--on-bad-line", "skip")[1]
    assert f"crosslet: skipped {path}: line 3: text: String should have at least 1 character" in error
    assert error.splitlines()[-1] == "2 documents read: 2 new, 0 replaced, 0 unchanged, 2 bad lines skipped"
    rows = [{"id": "a/../b", "text": "a"}, {"id": "a", "text": "a", "metadata": {"n": 2**64}}, {"metdata": {}}]
    path = write_jsonl(tmp_path / "b.jsonl", rows)
    error = crosslet("index", "build", path, "--on-bad-line", "skip", status=2)[1]
    assert f"{path}: line 1: id: a part between slashes is '.' or '..'" in error
    assert f"{path}: line 2: metadata: a whole number is beyond 64 bits" in error
    assert "line 3: the field 'metdata' is unknown; known are id, text, metadata; did you mean metadata?" in error
    assert "0 documents read" in error
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"[]\n")))
    assert "standard input: line 1: is not a JSON object" in crosslet("index", "build", "-", status=2)[1]


def test_build_loads_all_but_the_documents_the_model_fails_on(
    crosslet: Crosslet, tmp_path: Path, failing_model: Path
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    build(crosslet, path, "--model", str(failing_model))
    rows = [DOCUMENTS[0] | {"text": "kaputt secret"}, {"id": "new", "text": "kaputt"}, {"id": "last", "text": "gut"}]
    write_jsonl(path, rows)
    for told in ("1 new, 0 replaced, 0 unchanged", "0 new, 0 replaced, 1 unchanged"):  # the second run tries again
        lines = crosslet("index", "build", path, "--model", failing_model, status=2)[1].splitlines()
        assert [line.split(": ")[1] for line in lines if "gave no finite vector" in line] == [
            f'document "{DOCUMENTS[0]["id"]}"',
            'document "new"',
        ]
        assert lines[-2] == f"1 documents read: {told}, 2 could not be embedded"
        assert lines[-1].startswith("crosslet: 2 documents were not stored; earlier versions")
        assert not [line for line in lines if "secret" in line]
    kept = read_jsonl(crosslet("index", "export")[0])
    assert kept == [*DOCUMENTS, {"id": "last", "text": "gut", "metadata": {}}]


def test_reembed_keeps_the_store_if_the_model_fails(
    crosslet: Crosslet, tmp_path: Path, failing_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*DOCUMENTS, {"id": "odd", "text": "kaputt"}]
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", rows))
    error = crosslet("index", "re-embed", "--model", failing_model, status=2)[1]
    assert 'crosslet: document "odd": the model gave no finite vector' in error
    assert "12 documents read: 12 new, 0 replaced, 0 unchanged, 1 could not be embedded; document store" in error
    assert len(read_jsonl(crosslet("index", "export")[0])) == 13
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", [{"id": "odd", "text": "gut"}]))  # still of the old model
    assert "12 unchanged" in crosslet("index", "re-embed", "--model", failing_model)[1]
    monkeypatch.setenv("CROSSLET_MODEL", str(failing_model))
    assert len(read_jsonl(crosslet("index", "export")[0])) == 13
    assert json.loads(crosslet("search", "gut", "--top-k", "1")[0])["id"] == "odd"


def test_beside_a_service_only_reading_commands_work(crosslet: Crosslet, tmp_path: Path, tiny_model: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    build(crosslet, path)
    encoder = load_encoder(tiny_model)
    serving = load_collection(Settings(), encoder.manifest)
    try:
        serving.put([Document("live", "hallo", {"lang": "de"})], encoder.encode("hallo").vector[None])
        assert read_jsonl(crosslet("index", "export")[0])[-1]["id"] == "live"
        facts = json.loads(crosslet("index", "stats")[0])
        assert facts["documents"] == 13
        assert facts["languages"] == {"de": 7, "en": 6}
        assert facts["fingerprint"] == encoder.manifest.fingerprint
        assert facts["size_bytes"] == sum(
            file.stat().st_size for file in (tmp_path / "data").iterdir() if file.suffix != ".lock"
        )
        assert "13 documents are intact" in crosslet("index", "verify")[1]
        for command in (["build", path], ["compact"]):
            error = crosslet("index", *command, status=2)[1]
            assert "is in use by another process (CROSSLET_DATA): stop the service first" in error
    finally:
        serving.close()


LONG, NAN = (np.full(DIM, value, "<f4").tobytes() for value in (2, np.nan))


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "UPDATE passages SET vector = x'00' WHERE row = 4",
            'document "3" has a vector of 1 bytes, not the 64 of 16',
        ),
        (
            ("UPDATE passages SET vector = ? WHERE row > 2", LONG),
            'document "2" has a vector of norm 8.0000; it must',
        ),
        (
            ("UPDATE passages SET vector = ? WHERE row = 1", NAN),
            'document "0" has a vector with numbers that are not finite',
        ),
        ("DELETE FROM fields WHERE key = 'n' AND value = 5", 'document "5" has 2 filterable values, but'),
        ("UPDATE fields SET value = 'fr' WHERE value = 'de'", 'document "0" has 2 filterable values, but'),
        ("UPDATE documents SET metadata = '[1]' WHERE id = '4'", 'document "4" has metadata that are not a JSON'),
        ("UPDATE documents SET revision = 99 WHERE id = '4'", 'document "4" has revision 99, beyond'),
        ("INSERT INTO fields VALUES (1, 'n', 'number', 7, 99)", "1 rows of the table of fields belong to no document"),
        (
            "INSERT INTO passages VALUES (99, 99, 1, 0, 0, x'', 0)",
            "1 rows of the table of vectors belong",
        ),
        ("UPDATE collections SET documents = 11", "there are 12 documents, the table of collections says 11"),
        ("INSERT INTO keywords_1 (rowid, terms) VALUES (1, 'more')", "the keywords are not those of the texts"),
    ],
)
def test_verify_names_each_kind_of_fault_once(
    crosslet: Crosslet, tmp_path: Path, statement: str | tuple[str, bytes], sentence: str
) -> None:
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    damage(*([statement] if isinstance(statement, str) else statement))
    lines = crosslet("index", "verify", status=2)[1].splitlines()
    said = [line for line in lines if line.startswith(("document ", "1 rows", "there", "the key"))]
    assert len(said) == 1
    assert said[0].startswith(sentence)
    assert lines[-1] == f"crosslet: document store {Settings().documents_path} has faults of 1 kinds"


def test_a_flipped_byte_is_found_and_said_in_a_sentence(crosslet: Crosslet, tmp_path: Path) -> None:
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    path = Settings().documents_path
    content = bytearray(path.read_bytes())
    page = 4096
    for start in range(page, len(content), page):  # the header of every table's first page
        content[start] ^= 0xFF
    path.write_bytes(content)
    error = crosslet("index", "verify", status=2)[1]
    assert error.splitlines()[-1].startswith(f"crosslet: document store {path}")
    assert "Traceback" not in error


def test_compact_frees_deleted_space_and_keeps_documents(crosslet: Crosslet, tmp_path: Path, tiny_model: Path) -> None:
    rows = [{"id": str(n), "text": f"{TEXTS[0]} {n}", "metadata": {"pad": "x" * 500}} for n in range(1000)]
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", rows))
    collection = load_collection(Settings(), load_encoder(tiny_model).manifest)
    collection.delete([str(n) for n in range(900)])
    collection.close()
    before = crosslet("index", "export", "--vectors", "base64")[0]
    sizes = json.loads(crosslet("index", "compact")[0])
    assert sizes["after_bytes"] < sizes["before_bytes"] / 4
    assert sizes["after_bytes"] == json.loads(crosslet("index", "stats")[0])["size_bytes"]
    assert crosslet("index", "export", "--vectors", "base64")[0] == before
    assert "100 documents are intact" in crosslet("index", "verify")[1]


def test_compact_needs_room_beside_the_store_and_nowhere_else(
    crosslet: Crosslet, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "Ann's data"))
    rows = [{"id": str(n), "text": TEXTS[0], "metadata": {"pad": "x" * 500}} for n in range(1000)]
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", rows))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # no file grows beyond it
    try:
        said = crosslet("index", "compact", status=2)[1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "nothing was lost" in said
    assert f"{Settings().data} needs free space" in said
    with closing(sqlite3.connect(":memory:")) as connection:
        (folder,) = connection.execute("PRAGMA temp_store_directory").fetchone()
    assert folder == str(tmp_path / "Ann's data")
    assert "1000 documents are intact" in crosslet("index", "verify")[1]


@pytest.mark.parametrize(
    "command", ["export", "stats", "verify", "compact", "repair", "re-embed", "report", "backup FILE", "restore FILE"]
)
def test_without_a_local_store_a_command_says_so_and_makes_none(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    arguments = ["index", *command.replace("FILE", str(tmp_path / "a.backup")).split()]
    assert "there is no " in crosslet(*arguments, status=2)[1]
    assert list(tmp_path.iterdir()) == []
    if "restore" not in command:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "documents.sqlite3").write_text("no store" * 100)
        assert "(file is not a database)" in crosslet(*arguments, status=2)[1]
    monkeypatch.setenv("CROSSLET_INDEX", "milvus://localhost:19530/default")
    assert "CROSSLET_INDEX names" in crosslet(*arguments, status=2)[1]


def test_command_imports_heavy_libraries_only_when_needed() -> None:
    heavy = {"faiss", "onnxruntime", "pyarrow", "ray", "tqdm"}
    code = f"import sys, service.cli.main; print(sorted({heavy} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_reader_that_leaves_early_is_no_error(crosslet: Crosslet, tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": f"{TEXTS[0]} {n}", "metadata": {"pad": "x" * 1000}} for n in range(300)]
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", rows))
    exporting = subprocess.Popen([*COMMAND, "index", "export"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert exporting.stdout is not None
    assert json.loads(exporting.stdout.readline())["id"] == "0"
    exporting.stdout.close()
    assert exporting.stderr is not None
    error = exporting.stderr.read().decode()
    exporting.stderr.close()
    assert exporting.wait(timeout=200) == 0, error
    assert "Error" not in error


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGKILL])
def test_a_build_that_was_ended_goes_on_where_it_was(
    crosslet: Crosslet, tmp_path: Path, signal_: signal.Signals
) -> None:
    """The file is a pipe that stays open: the end comes at a known place, in the middle."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    rows = [{"id": str(n), "text": f"{TEXTS[n % 12]} {n}"} for n in range(1500)]
    with subprocess.Popen([*COMMAND, "index", "build", pipe], stderr=subprocess.PIPE) as building:
        try:
            with pipe.open("w", encoding="utf-8") as file:
                for row in rows[:900]:
                    file.write(json.dumps(row) + "\n")
                file.flush()
                wait_for_documents(256)
                building.send_signal(signal_)
                error = building.communicate(timeout=200)[1].decode()
        finally:
            building.kill()
    if signal_ == signal.SIGINT:
        assert building.returncode == 2
        assert re.search(r"stopped: (256|512|768) documents read: .+; run the same command again to continue", error)
        assert "Traceback" not in error
    there = json.loads(crosslet("index", "stats")[0])["documents"]
    assert there >= 256
    assert build(crosslet, write_jsonl(tmp_path / "a.jsonl", rows)) == (
        f"1500 documents read: {1500 - there} new, 0 replaced, {there} unchanged"
    )
    assert "1500 documents are intact" in crosslet("index", "verify")[1]


def wait_for_documents(count: int) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        path = Settings().documents_path
        if path.with_name(f"{path.name}-wal").exists():
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            try:
                if connection.execute("SELECT count(*) FROM documents").fetchone()[0] >= count:
                    return
            except sqlite3.OperationalError:  # not made yet
                pass
            finally:
                connection.close()
        time.sleep(0.1)
    raise AssertionError(f"{count} documents were not there after 200 s")


def test_a_store_of_another_model_is_only_read_until_reembedded(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    build(crosslet, path)
    build_artifact(tmp_path / "other", seed=5)
    monkeypatch.setenv("CROSSLET_MODEL", str(tmp_path / "other"))
    assert len(read_jsonl(crosslet("index", "export")[0])) == 12
    assert "12 documents are intact" in crosslet("index", "verify")[1]
    assert "holds vectors of model" in crosslet("index", "build", path, status=2)[1]
    assert "12 documents read: 12 new" in crosslet("index", "re-embed")[1]
    found = json.loads(crosslet("search", DOCUMENTS[3]["text"], "--top-k", "1")[0])
    assert found["id"] == DOCUMENTS[3]["id"]
    assert json.loads(crosslet("index", "stats")[0])["documents"] == 12
    assert "already has the vectors of this model" in crosslet("index", "re-embed", status=2)[1]


def test_start_adopts_reembedded_store(crosslet: Crosslet, tmp_path: Path, tiny_model: Path) -> None:
    build(crosslet, write_jsonl(tmp_path / "a.jsonl", DOCUMENTS))
    other = tmp_path / "other"
    build_artifact(other, seed=5)
    new, old = load_encoder(other), load_encoder(tiny_model)
    settings = Settings(model=other)
    take_over_ready(new, settings)  # nothing is ready
    serving = load_collection(Settings(), old.manifest)
    error = crosslet("index", "re-embed", "--model", other)[1]
    assert f"are ready. The service goes on with the old ones; start it anew with CROSSLET_MODEL={other}" in error
    serving.put([Document("late", "hallo", {})], old.encode("hallo").vector[None])
    assert len(search_one(serving, old.encode("hallo").vector, top_k=99)) == 13
    serving.close()
    take_over_ready(old, Settings())  # the old model goes on
    load_collection(Settings(), old.manifest).close()
    take_over_ready(new, settings)
    made = load_collection(settings, new.manifest)
    assert search_one(made, new.encode("hallo").vector, top_k=1)[0].document.id == "late"
    assert len(made) == 13
    made.close()
    take_over_ready(new, settings)
