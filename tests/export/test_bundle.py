import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from export.bundle import check_target, write_artifact
from export.errors import BadRequest
from service.model.artifact import ArtifactError, Manifest, load_manifest, load_parity, verify_files

Write = Callable[..., Manifest]


@pytest.fixture
def write(student_artifact: Path) -> Write:
    """Writes the student's files to a folder, but for those given."""
    manifest = load_manifest(student_artifact)
    files = {name: student_artifact / name for name in manifest.files}
    bare = dataclasses.replace(manifest, files={}, fingerprint="")

    def write(out: Path, *, force: bool = False, **others: bytes) -> Manifest:
        return write_artifact(
            out, files | {name.replace("_", "."): text for name, text in others.items()}, bare, force=force
        )

    return write


def test_the_folder_keeps_the_contract(write: Write, student_artifact: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "model"
    manifest = write(out)
    verify_files(out, manifest)
    assert load_manifest(out) == manifest == load_manifest(student_artifact)
    names = ["README.md", "manifest.json", "model.onnx", "parity.json", "tokenizer.json"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert list(out.parent.iterdir()) == [out]  # no temporary folder is left


def test_an_existing_folder_is_not_overwritten(write: Write, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for force, reason in ((False, "exists; --force replaces it"), (True, "it is no artifact, and --force does not")):
        with pytest.raises(BadRequest, match=reason):
            write(tmp_path, force=force)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_an_empty_folder_takes_the_artifact(write: Write, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    verify_files(tmp_path / "model", write(tmp_path / "model"))
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_folder_or_cannot_be_replaced_is_one_sentence(tmp_path: Path, force: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadRequest, match=r"pipe (exists; --force replaces it|has no manifest\.json)"):
        check_target(tmp_path / "pipe", force=force)
    with pytest.raises(BadRequest, match="/proc is a mount point, which cannot be replaced; name a folder in it"):
        check_target(Path("/proc"), force=force)
    with pytest.raises(BadRequest, match="/dev/fd"):
        check_target(Path("/dev/fd/1"), force=force)


def test_force_replaces_an_artifact(write: Write, tmp_path: Path) -> None:
    out = tmp_path / "model"
    write(out)
    (out / "stray.txt").write_text("old")
    write(out, force=True, README_md=b"# new card\n")
    assert (out / "README.md").read_text() == "# new card\n"
    assert not (out / "stray.txt").exists()
    assert list(tmp_path.iterdir()) == [out]


def test_force_through_a_link_replaces_the_folder_behind_it(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "model")
    (tmp_path / "current").symlink_to(tmp_path / "model")
    write(tmp_path / "current", force=True, README_md=b"# new card\n")
    assert (tmp_path / "current").is_symlink()
    assert (tmp_path / "model" / "README.md").read_text() == "# new card\n"


def test_unwritable_out_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadRequest, match=r"file is no folder that can be written to; choose another --out"):
        check_target(tmp_path / "file" / "deep" / "model", force=False)
    check_target(tmp_path / "deep" / "model", force=False)
    assert not (tmp_path / "deep").exists()


def test_what_the_service_would_refuse_keeps_the_old(write: Write, student_artifact: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    old = write(out)
    parity = load_parity(student_artifact, old)
    first, *others = parity.input_ids
    other_ids = dataclasses.replace(parity, input_ids=(first[:-1], *others))
    with pytest.raises(ArtifactError, match=rf"the service would refuse {out}: parity text 0 gives other token ids"):
        write(out, force=True, parity_json=other_ids.to_json().encode())
    verify_files(out, old)
    assert list(tmp_path.iterdir()) == [out]
