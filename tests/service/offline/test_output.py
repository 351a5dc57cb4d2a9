"""Files that commands write: who may read them, and what lies in their way."""

import os
import subprocess
from pathlib import Path

import pytest

from service.documents.report_file import Summary, read_summary, write_summary
from service.documents.store.store import DocumentStore
from service.errors import StorageFull
from service.offline.backup import write_backup
from service.offline.output import writing
from service.process.files import create, create_beside

SUMMARY = Summary("aa", 1, "2026-01-01", 1, 1, 1.0, 1.0, {}, None, 0.0, 0.0, 0)


def write(path: Path, *, is_private: bool = False) -> bytes:
    with writing(path, is_private=is_private) as file:
        file.write(b"lines")
    return b"lines"


def test_an_output_file_is_whole_or_not_there(tmp_path: Path) -> None:
    for out, before in ((tmp_path / "new", []), (tmp_path / "old", ["old"])):
        for name in before:
            (tmp_path / name).write_text("before")
        with pytest.raises(OSError, match="the disk"), writing(out):
            raise OSError(5, "the disk")  # of the input: not said of the output
        assert [path.name for path in tmp_path.iterdir()] == before
    assert (tmp_path / "old").read_text() == "before"
    with pytest.raises(StorageFull, match="full cannot be written completely"), writing(Path("/dev/full")) as file:
        file.write(b"x")


def test_a_link_is_followed_and_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert write(tmp_path / "link") == (tmp_path / "target").read_bytes()
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert write(tmp_path / "pipe") == os.read(reader, 1000)
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_mount_point_is_written_in_place(tmp_path: Path) -> None:
    """As a file that a container has from its host."""
    out = tmp_path / "out put"
    out.write_text("longer than what is written to it\n" * 9)
    if subprocess.run(["mount", "--bind", out, out], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert write(out) == out.read_bytes()
    finally:
        subprocess.run(["umount", out], check=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write any folder")
def test_a_file_in_a_read_only_folder_is_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    tmp_path.chmod(0o500)
    assert write(tmp_path / "out") == (tmp_path / "out").read_bytes()


def test_a_link_beside_an_output_is_not_followed(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "out.part").symlink_to(victim)
    assert write(tmp_path / "out") == (tmp_path / "out").read_bytes()
    assert (tmp_path / "out.part").is_symlink()


def test_a_link_beside_a_backup_is_not_followed(tmp_path: Path, victim: Path) -> None:
    DocumentStore(tmp_path / "data" / "documents.sqlite3", fingerprint="aa", dim=4).close()
    (tmp_path / "a.backup.part").symlink_to(victim)
    write_backup(tmp_path / "data" / "documents.sqlite3", tmp_path / "a.backup")
    assert (tmp_path / "a.backup").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"a.backup", "a.backup.part", "data", "victim"}


def test_a_link_beside_a_report_is_not_followed(tmp_path: Path, victim: Path) -> None:
    (tmp_path / f"index-report.json.{os.getpid()}.new").symlink_to(victim)
    write_summary(tmp_path, SUMMARY)
    assert read_summary(tmp_path, fingerprint="aa") == SUMMARY
    assert (tmp_path / "index-report.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("is_private", "mode"), [(True, 0o600), (False, 0o644)])
def test_documents_are_for_their_owner_alone(tmp_path: Path, is_private: bool, mode: int) -> None:
    before = os.umask(0o022)
    try:
        write(tmp_path / "out", is_private=is_private)
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == mode


def test_a_file_is_never_created_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        create(tmp_path / "link")
    assert len({create_beside(tmp_path / "out") for _ in range(9)}) == 9
    assert not (tmp_path / "nowhere").exists()
