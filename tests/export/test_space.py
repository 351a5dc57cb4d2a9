"""A copy of an artifact that knows another model's space."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from export.evaluation.models import load_model
from export.space import RIDGE, main, split
from service.model.artifact import load_manifest, verify_files
from service.model.encoder import load_encoder
from tests.artifacts import DIM, build_artifact
from tests.export.checkpoints import save_student
from tests.training.alignment.files import PAIRS as ALL_PAIRS
from training.models.teacher import load_teacher, teacher_identity

PAIRS = ALL_PAIRS[:80]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("others") / "other"
    folder.mkdir()
    save_student(folder, layers=1, recurrences=1, dim=24)
    return folder


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    build_artifact(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "en-de.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"{left}\t{right}\n" for left, right in PAIRS).encode()))
    return path


def test_map_is_ridge_regression_of_both_sides_on_the_labels(
    artifact: Path, pairs: Path, other: Path, tmp_path: Path
) -> None:
    import torch

    out = tmp_path / "out"
    assert main([str(artifact), "--model", str(other), "--pairs", str(pairs), "--out", str(out)]) == 0
    fitted, held_out = split(PAIRS)
    encoder, model = load_encoder(out), load_teacher(str(other), device=torch.device("cpu"))
    encode = load_model(str(out)).encode
    own = encode([english for english, _ in fitted] + [german for _, german in fitted]).astype(np.float64)
    label = np.tile(model.encode([english for english, _ in fitted], normalize_embeddings=True), (2, 1))
    # An oracle: least squares over rows that stand for the penalty.
    centred, mean = own - own.mean(axis=0), label.mean(axis=0)
    penalty = np.sqrt(RIDGE * (centred**2).sum() / DIM)
    rows = np.vstack([centred, penalty * np.eye(DIM)])
    weight, *_ = np.linalg.lstsq(rows, np.vstack([label - mean, np.zeros((DIM, label.shape[1]))]), rcond=None)

    space = encoder.spaces.maps["other"]
    np.testing.assert_allclose(space.weight_ED, weight.T, atol=2e-3)  # float16
    np.testing.assert_allclose(space.bias_E, mean - own.mean(axis=0) @ weight, atol=2e-3)
    (entry,) = encoder.manifest.spaces
    assert (entry.dim, entry.pairs, entry.identity) == (24, len(fitted), teacher_identity(str(other)))
    for side, cosine in ((0, entry.english_cosine), (1, entry.other_cosine)):
        mapped = space(encode([pair[side] for pair in held_out]))
        labels = model.encode([english for english, _ in held_out], normalize_embeddings=True)
        assert cosine == pytest.approx((mapped * labels).sum(axis=1).mean(), abs=1e-4)


def test_the_copy_keeps_the_model_and_its_fingerprint(artifact: Path, pairs: Path, other: Path, tmp_path: Path) -> None:
    before, out = load_manifest(artifact), tmp_path / "out"
    assert main([str(artifact), "--model", str(other), "--name", "x", "--pairs", str(pairs), "--out", str(out)]) == 0
    after = load_manifest(out)
    verify_files(out, after)
    assert after.fingerprint == before.fingerprint
    assert {name: after.files[name] for name in before.files} == before.files
    assert sorted(set(after.files) - set(before.files)) == ["space.x.npy"]
    assert load_manifest(artifact) == before
    assert '"spaces"' not in (artifact / "manifest.json").read_text(encoding="utf-8")


def test_pairs_of_one_english_sentence_are_held_out_together() -> None:
    fitted, held_out = split([(f"sentence {number % 40}", f"{number}") for number in range(120)])
    assert {english for english, _ in held_out} == {"sentence 19", "sentence 39"}
    assert (len(fitted), len(held_out)) == (114, 6)


def test_what_cannot_be_fitted_is_refused_in_a_sentence(
    artifact: Path, pairs: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few, out = tmp_path / "few.tsv", tmp_path / "out"
    few.write_text("A cat.\tEine Katze.\n", encoding="utf-8")
    options = [str(artifact), "--out", str(out), "--model", str(other)]
    for more, sentence in (
        (["--pairs", str(few)], "1 pairs are too few: give 20 distinct English sentences or more"),
        (["--pairs", str(tmp_path / "none.tsv")], "none.tsv is not a file (--pairs)"),
        (["--pairs", str(pairs), "--name", "a/b"], "'a/b' cannot name a space: --name takes letters, digits and . _ -"),
        (["--pairs", str(pairs), "--model", str(tmp_path)], "cannot be loaded"),
    ):
        assert main([*options, *more]) == 2
        assert sentence in capsys.readouterr().err
        assert not out.exists()
