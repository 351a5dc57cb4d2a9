import dataclasses
import json
from pathlib import Path

import pytest

from service.errors import ArtifactError
from service.model.artifact import Manifest, fingerprint_of, load_manifest, load_parity, verify_files
from service.process.files import sha256_of
from tests.artifacts import DIM, TEXTS, build_artifact

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def edit_manifest(folder: Path, **changes: object) -> None:
    fields = json.loads((folder / "manifest.json").read_text(encoding="utf-8")) | changes
    given = {name: value for name, value in fields.items() if value is not None}
    (folder / "manifest.json").write_text(json.dumps(given), encoding="utf-8")


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """The manifest of an artifact that is written into tmp_path."""
    return build_artifact(tmp_path)


def test_a_written_folder_reads_back_the_same_and_verifies(tmp_path: Path, manifest: Manifest) -> None:
    assert load_manifest(tmp_path) == manifest
    verify_files(tmp_path, manifest)
    assert load_parity(tmp_path, manifest).texts == TEXTS


@pytest.mark.usefixtures("manifest")
def test_a_manifest_without_a_kind_is_of_a_bi_encoder(tmp_path: Path) -> None:
    edit_manifest(tmp_path, kind=None)
    assert load_manifest(tmp_path).kind == "bi-encoder"


def test_the_hash_of_an_empty_file_is_the_published_one(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert sha256_of(path) == EMPTY_SHA256


def test_fingerprint_covers_model_and_tokenizer() -> None:
    # printf '%s\n%s\n' aa bb | sha256sum
    assert fingerprint_of(model_sha256="aa", tokenizer_sha256="bb") == (
        "329d670e59ead1543a2d36865895972560bc434204c5f4a0c8219005dd312719"
    )
    assert fingerprint_of(model_sha256="aa", tokenizer_sha256="bb") != fingerprint_of(
        model_sha256="bb", tokenizer_sha256="aa"
    )


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "parity.json", "README.md"])
def test_one_changed_byte_is_refused_by_name(tmp_path: Path, manifest: Manifest, name: str) -> None:
    content = bytearray((tmp_path / name).read_bytes())
    content[0] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=rf"{name} has sha256"):
        verify_files(tmp_path, manifest)


def test_a_cut_or_missing_file_is_refused(tmp_path: Path, manifest: Manifest) -> None:
    (tmp_path / "model.onnx").write_bytes(b"gra")
    with pytest.raises(ArtifactError, match=r"model\.onnx has 3 bytes; the manifest says \d+"):
        verify_files(tmp_path, manifest)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(ArtifactError, match=r"model\.onnx is missing"):
        verify_files(tmp_path, manifest)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version: Input should be 1"),
        ({"kind": "decoder"}, "kind"),
        ({"surprise": 1}, "surprise"),
        ({"fingerprint": "00"}, "fingerprint"),
        ({"dim": 0}, "dim: Input should be greater than 0"),
        ({"files": {}}, "does not list"),
        ({"default_prompt_name": "sts"}, "default_prompt_name 'sts', but its prompts are none"),
        ({"prompts": {"a": "b"}, "default_prompt_name": "sts"}, "default_prompt_name 'sts', but its prompts are a"),
        ({"truncate_dim": 8}, "truncate_dim 8 and dim 16; they must be equal"),
        ({"prompts": {"query": "edited "}}, "has fingerprint"),  # stored vectors would be of other prompts
    ],
)
@pytest.mark.usefixtures("manifest")
def test_a_manifest_that_breaks_the_contract_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    edit_manifest(tmp_path, **changes)
    with pytest.raises(ArtifactError, match=message):
        load_manifest(tmp_path)


def test_a_manifest_cannot_name_a_file_outside_its_folder(tmp_path: Path, manifest: Manifest) -> None:
    files = {name: dataclasses.asdict(entry) for name, entry in manifest.files.items()}
    edit_manifest(tmp_path, files=files | {"../secret": {"sha256": "00", "size_bytes": 1}})
    with pytest.raises(ArtifactError, match="not the name of a file in the folder"):
        load_manifest(tmp_path)


def test_a_missing_folder_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="CROSSLET_MODEL"):
        load_manifest(tmp_path / "nowhere")


def test_a_manifest_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        load_manifest(tmp_path)


def test_a_parity_pack_of_another_dimension_is_refused(tmp_path: Path, manifest: Manifest) -> None:
    with pytest.raises(ArtifactError, match=f"a vector of {DIM} floats; the manifest says 3"):
        load_parity(tmp_path, dataclasses.replace(manifest, dim=3))


@pytest.mark.parametrize(
    ("evaluation", "expected"),
    [
        ({"served": {"search_min_score": {"de": 0.36, "all": 0.43}}}, {"de": 0.36, "all": 0.43}),
        ({"served": {"tatoeba_p1": {"de": 97.0}}}, {}),
        ({"served": {"search_min_score": 0.4}}, {}),
        ({"served": "not measured"}, {}),
        ({}, {}),
    ],
)
def test_the_recommended_thresholds_are_those_of_the_search_set(
    manifest: Manifest, evaluation: dict[str, object], expected: dict[str, float]
) -> None:
    assert dataclasses.replace(manifest, evaluation=evaluation).min_scores == expected


@pytest.mark.parametrize("name", ["manifest.json", "model.onnx", "tokenizer.json", "parity.json"])
@pytest.mark.usefixtures("manifest")
def test_a_pointer_of_git_lfs_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n")
    with pytest.raises(ArtifactError, match=f"{name} is a Git LFS pointer, not the file itself: run `git lfs pull`"):
        verify_files(tmp_path, load_manifest(tmp_path))
