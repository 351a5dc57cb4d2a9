"""Files that training reads and writes: pointers, pipes, links that others put there, modes."""

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from export.inputs import read_sts, read_texts
from tests.training.files import write
from tests.training.models.bases import save_family
from tests.training.reranking.small import TEXTS, student_base
from training.corpora.readers import read_pair_file
from training.errors import CorpusError, EvaluationError, TrainingError
from training.evaluation.lines import read_lines
from training.models.cross_encoder import load_base
from training.optimisation.checkpoints import save_state
from training.reranking.checkpoint import save_cross_encoder
from training.system.files import (
    LfsPointer,
    check_folder,
    partial,
    refuse_pointers,
    wait_for,
    write_atomically,
    write_json_atomically,
)

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_a_pointer_of_git_lfs_is_named_where_lines_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(POINTER)
    with pytest.raises(EvaluationError, match=rf"{name} is a Git LFS pointer, not the file itself: run `git lfs pull`"):
        read_lines(tmp_path / name)


@pytest.mark.parametrize(
    "name", ["en-de.tsv", "en-de.tsv.gz", "en-de.tmx", "en-de.tmx.gz", "en-de.txt.zip", "en-de/a.csv"]
)
def test_a_pointer_of_git_lfs_is_named_in_every_format_of_pairs(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(POINTER)
    path = tmp_path / name.partition("/")[0]
    with pytest.raises(CorpusError, match=f"{name} is a Git LFS pointer"):
        list(read_pair_file(path, "de"))


def test_text_about_git_lfs_is_no_pointer(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", "A pointer begins with: version https://git-lfs.github.com/spec/v1")
    refuse_pointers([tmp_path / "a.tsv"])
    (tmp_path / "a.gz").write_bytes(gzip.compress(POINTER))
    refuse_pointers([tmp_path / "a.gz"])
    (tmp_path / "b").write_bytes(POINTER)
    with pytest.raises(LfsPointer):
        refuse_pointers([tmp_path / "a.tsv", tmp_path / "b"])


def test_a_byte_order_mark_is_no_part_of_the_first_text(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(b"\xef\xbb\xbf1\ta\tb\n2\tc\td\n")
    assert read_lines(path)[0] == read_texts(path)[0] == "1\ta\tb"
    assert len(read_sts(path)) == 2


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    write_json_atomically(pipe, {"a": 1})
    reader.join(timeout=10)
    assert found == ['{\n "a": 1\n}']
    assert pipe.is_fifo()


def test_the_file_behind_a_link_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    write_json_atomically(link, 1)
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "1"


def test_a_folder_may_be_there_or_not_but_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for out in (tmp_path, tmp_path / "a" / "b"):
        check_folder(out, error=TrainingError)
    for out in (tmp_path / "file", tmp_path / "file" / "a", tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(TrainingError, match="is no folder that can be written to; choose another --out"):
            check_folder(out, error=TrainingError)
    assert not (tmp_path / "a").exists()


def test_a_link_of_a_temporary_name_is_replaced(tmp_path: Path, victim: Path) -> None:
    path = tmp_path / "report.md"
    partial(path).symlink_to(victim)
    write_atomically(path, lambda temporary: temporary.write_text("new"))
    assert path.read_text() == "new"
    assert not path.is_symlink()


def test_a_state_is_not_written_through_a_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "resume").mkdir()
    (tmp_path / "resume" / ".partial").symlink_to(victim)
    save_state({"step": 1}, tmp_path / "resume", name="0000000001")
    (state,) = (tmp_path / "resume").iterdir()
    assert torch.load(state, weights_only=True) == {"step": 1}


def test_a_lock_does_not_empty_what_a_link_leads_to(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / ".lock").symlink_to(victim)
    with wait_for(tmp_path / "step"):
        pass


def test_a_second_process_waits_for_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "step"
    script = "import sys; from pathlib import Path; from training.system.files import wait_for\n"
    script += "with wait_for(Path(sys.argv[1])): print((Path(sys.argv[1]) / 'result').read_text(), flush=True)"
    with wait_for(folder):
        other = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
        try:
            other.wait(timeout=1)
        except subprocess.TimeoutExpired:
            (folder / "result").write_text("made once")
    assert other.communicate(timeout=250)[0] == "made once\n"


@pytest.fixture(params=[0o022, 0o077], ids=["shared", "private"])
def mode(request: pytest.FixtureRequest) -> Iterator[int]:
    """What a new file gets under an umask."""
    before = os.umask(request.param)
    yield 0o666 & ~request.param
    os.umask(before)


def test_weights_follow_the_umask(tmp_path: Path, mode: int) -> None:
    model, tokenizer = load_base(str(save_family("bert", tmp_path / "base", TEXTS)), attention="eager")
    save_cross_encoder(model, tokenizer, tmp_path / "saved", name="x", languages=["en"], max_length=32)
    for folder in (tmp_path / "saved", student_base(tmp_path / "student")):
        assert (folder / "model.safetensors").exists()
        assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {mode}
