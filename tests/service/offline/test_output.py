"""Files that commands write: who may read them, and what lies in their way."""

import os
from pathlib import Path

import pytest

from service.documents.report_file import Summary, read_summary, write_summary
from service.documents.store.store import DocumentStore
from service.offline.backup import write_backup
from service.offline.output import writing
from service.process.files import create, create_beside

SUMMARY = Summary("aa", 1, "2026-01-01", 1, 1, 1.0, 1.0, {}, 0.0, 0.0, 0)


def test_a_link_beside_an_output_is_not_followed(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "out.part").symlink_to(victim)
    with writing(tmp_path / "out") as file:
        file.write(b"lines")
    assert (tmp_path / "out").read_bytes() == b"lines"
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
        with writing(tmp_path / "out", is_private=is_private) as file:
            file.write(b"lines")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == mode


def test_a_file_is_never_created_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        create(tmp_path / "link")
    assert len({create_beside(tmp_path / "out") for _ in range(9)}) == 9
    assert not (tmp_path / "nowhere").exists()
