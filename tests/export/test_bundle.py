import dataclasses
import os
from pathlib import Path

import pytest

from export.bundle import Bundle, check_target, write_bundle
from export.errors import BadRequest
from service.model.artifact import ArtifactError, load_manifest, load_parity, verify_files


@pytest.fixture
def bundle(student_artifact: Path) -> Bundle:
    manifest = load_manifest(student_artifact)
    return Bundle(
        model=student_artifact / "model.onnx",
        tokenizer=student_artifact / "tokenizer.json",
        parity=load_parity(student_artifact, manifest),
        card="# card\n",
        manifest=dataclasses.replace(manifest, files={}, fingerprint=""),
    )


def test_the_folder_keeps_the_contract(bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "model"
    manifest = write_bundle(bundle, out, force=False)
    verify_files(out, manifest)
    assert load_manifest(out) == manifest
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "manifest.json",
        "model.onnx",
        "parity.json",
        "tokenizer.json",
    ]
    assert list(out.parent.iterdir()) == [out]  # no temporary folder is left


def test_an_existing_folder_is_not_overwritten(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").touch()
    with pytest.raises(BadRequest, match=r"model exists; --force replaces it"):
        write_bundle(bundle, tmp_path / "model", force=False)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["mine.txt"]


def test_an_empty_folder_takes_the_artifact(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    verify_files(tmp_path / "model", write_bundle(bundle, tmp_path / "model", force=False))
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


def test_force_replaces_an_artifact(bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "model"
    write_bundle(bundle, out, force=False)
    (out / "stray.txt").write_text("old")
    write_bundle(dataclasses.replace(bundle, card="# new card\n"), out, force=True)
    assert (out / "README.md").read_text() == "# new card\n"
    assert not (out / "stray.txt").exists()
    assert list(tmp_path.iterdir()) == [out]


def test_force_never_replaces_what_is_no_artifact(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BadRequest, match=r"has no manifest.json: it is no artifact, and --force does not replace it"):
        write_bundle(bundle, tmp_path, force=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_unwritable_out_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadRequest, match=r"file is no folder that can be written to; choose another --out"):
        check_target(tmp_path / "file" / "deep" / "model", force=False)
    check_target(tmp_path / "deep" / "model", force=False)
    assert not (tmp_path / "deep").exists()


def test_a_failure_leaves_nothing_and_keeps_the_old(bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "model"
    old = write_bundle(bundle, out, force=False)
    ragged = dataclasses.replace(bundle, parity=dataclasses.replace(bundle.parity, texts=("one",)))
    with pytest.raises(ArtifactError):
        write_bundle(ragged, out, force=True)
    verify_files(out, old)
    assert list(tmp_path.iterdir()) == [out]


def test_what_the_service_would_refuse_is_not_written(bundle: Bundle, tmp_path: Path) -> None:
    first, *others = bundle.parity.input_ids
    other_ids = dataclasses.replace(bundle.parity, input_ids=(first[:-1], *others))
    out = tmp_path / "model"
    with pytest.raises(ArtifactError, match=rf"the service would refuse {out}: parity text 0 gives other token ids"):
        write_bundle(dataclasses.replace(bundle, parity=other_ids), out, force=False)
    assert list(tmp_path.iterdir()) == []
