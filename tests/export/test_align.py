"""`crosslet align`: from a file of pairs to a model that serves."""

import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from export.__main__ import main as export
from export.align import main
from export.evaluation.models import load_model
from service.model.artifact import DataLicence, load_manifest
from service.model.encoder import load_encoder
from tests.artifacts import build_artifact, write_manifest
from tests.export.checkpoints import MINILM, save_student
from tests.export.test_head import ALIGNMENT
from tests.training.alignment.files import PAIRS, write_pairs
from tests.training.models.test_loading import CUSTOM_POOLING, change, pooling_code
from training.alignment.candidates import Candidate
from training.alignment.head import write_checkpoint
from training.alignment.layers import Layer
from training.alignment.scores import embed_probe, lost_points, probe_scores
from training.errors import AlignmentError
from training.evaluation.bitext import score_bitext
from training.models.loading import load_sentence_transformer

QUICK = ["--epochs", "2", "--learning-rate", "0.01"]


@pytest.fixture
def artifact(tmp_path: Path) -> str:
    build_artifact(tmp_path / "tiny")
    return str(tmp_path / "tiny")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "en-de.tsv", PAIRS[:200])


@pytest.fixture(scope="module")
def aligned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small artifact, and the folder of its alignment with 180 pairs; read-only for tests."""
    folder = tmp_path_factory.mktemp("aligned")
    build_artifact(folder / "tiny")
    pairs, test = write_pairs(folder / "en-de.tsv", PAIRS[:200]), write_pairs(folder / "test.tsv", PAIRS[200:])
    options = ["--pairs", str(pairs), "--test", str(test), "--out", str(folder / "out"), "--force", *QUICK]
    assert main([str(folder / "tiny"), *options]) == 0
    return folder / "tiny", folder / "out"


def test_aligned_artifact_serves_what_the_report_says(aligned: tuple[Path, Path]) -> None:
    artifact, out = aligned
    left, right = (list(side) for side in zip(*PAIRS[200:], strict=True))
    before, served = (
        score_bitext(model.encode(left), model.encode(right))
        for model in (load_model(str(folder)) for folder in (artifact, out / "model"))
    )
    manifest = load_manifest(out / "model")
    alignment = manifest.evaluation["alignment"]
    assert alignment["scores"]["after"] == pytest.approx(served, abs=0.51)  # a near tie may turn with the last bit
    assert alignment["scores"]["before"] == before
    assert (alignment["languages"], alignment["test_pairs"], alignment["pairs"]) == ("en-de", 100, 180)
    assert manifest.data_licences[-1].pairs == 180
    report = (out / "report.md").read_text(encoding="utf-8")
    assert f"| before: as served | {before['p1_forward']:.1f} | {before['p5_forward']:.1f} |" in report
    for part in ("after: less one mean", "each language's mean", "Procrustes, one side", "## Every language"):
        assert part in report
    assert {path.name for path in (out / "figures").iterdir()} == {"before.svg", "after.svg"}
    assert {path.name for path in out.iterdir()} == {"model", "report.md", "figures"}


def test_the_probe_of_the_card_is_that_of_the_served_model(artifact: str, pairs: Path, tmp_path: Path) -> None:
    assert main([artifact, "--pairs", str(pairs), "--out", str(tmp_path / "out"), "--force", *QUICK]) == 0
    model = load_model(str(tmp_path / "out" / "model"))
    after = load_manifest(tmp_path / "out" / "model").evaluation["alignment"]["probe"]["after"]
    assert probe_scores(embed_probe(model.encode, model.languages)) == pytest.approx(after, abs=0.5)
    assert set(after) == {"ar", "de", "en", "es", "fr", "tr", "zh"}


def test_an_aligned_artifact_shares_passes_as_before(aligned: tuple[Path, Path]) -> None:
    before, after = (load_encoder(folder) for folder in (aligned[0], aligned[1] / "model"))
    assert (after.shares_passes, after.mixes_lengths) == (before.shares_passes, before.mixes_lengths)


def test_a_head_that_harms_a_language_is_refused_unless_forced(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lefts, rights = zip(*PAIRS[:200], strict=True)
    scrambled = write_pairs(tmp_path / "en-de.tsv", list(zip(lefts, rights[7:] + rights[:7], strict=True)))
    rate = ["--learning-rate", "0.05"]  # far too high: it harms whatever vocabulary the small model was given
    options = [artifact, "--pairs", str(scrambled), "--out", str(tmp_path / "out"), *rate]
    options += ["--method", "siamese", "--structure", "relu"]
    assert main(options) == 1
    captured = capsys.readouterr()
    assert "refused: points lost beyond what is allowed: " in captured.err
    assert "--force writes the model all the same" in captured.err
    assert "Points lost beyond what is allowed" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert not (tmp_path / "out" / "model").exists()
    assert main([*options, "--force"]) == 0
    probe = load_manifest(tmp_path / "out" / "model").evaluation["alignment"]["probe"]
    assert lost_points(probe["before"], probe["after"])


def test_without_a_gain_no_model_is_written(
    artifact: str, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_manifest(Path(artifact), languages=("sw",))  # none that is guarded
    options = [artifact, "--pairs", str(pairs), "--out", str(tmp_path / "out")]
    options += ["--method", "siamese", "--epochs", "1", "--learning-rate", "1e-12"]  # a head that changes nothing
    assert main(options) == 1
    assert "refused: nothing gained on dev beyond chance: P@1 " in capsys.readouterr().err
    assert not (tmp_path / "out" / "model").exists()
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| none | " in report
    assert "nothing gained on dev beyond chance" in report
    assert "after 0 of 1 epochs." in report  # the untrained head
    assert main([*options, "--force"]) == 0


def test_refusal_is_one_sentence_and_writes_nothing(
    artifact: str, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few, leaked = write_pairs(tmp_path / "en-fr.tsv", PAIRS[:10]), write_pairs(tmp_path / "t.tsv", PAIRS[150:250])
    given = ["--pairs", str(pairs)]
    for options, sentence in (
        ([artifact, "--pairs", str(few)], "has 10 distinct pairs; at least 100 are needed"),
        ([artifact, *given, "--test", str(leaked)], "50 of the 100 pairs of"),
        ([str(tmp_path / "none"), *given], "there is no folder"),
        ([artifact], "give MODEL and --pairs, or --study"),
        ([artifact, "--study", "spec.yaml"], "leave MODEL and --pairs out"),
        ([artifact, *given, "--data", str(tmp_path)], "has no stsb/dev and no eval/stsb/dev"),
    ):
        assert main([*options, "--out", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("error: ")
        assert sentence in error
        assert not (tmp_path / "out").exists()


def test_a_model_is_replaced_only_when_told(
    artifact: str, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [artifact, "--pairs", str(pairs), "--out", str(tmp_path / "out"), "--force", *QUICK]
    assert main(options) == 0
    assert " test pairs: P@1 " in capsys.readouterr().out
    first = load_manifest(tmp_path / "out" / "model").fingerprint
    assert main(options) == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    with monkeypatch.context() as failing:
        failing.setattr("export.align.write_model", _fail)
        assert main([*options, "--overwrite", "--seed", "3"]) == 2
    assert load_manifest(tmp_path / "out" / "model").fingerprint == first
    assert main([*options, "--overwrite", "--seed", "3"]) == 0
    assert load_manifest(tmp_path / "out" / "model").fingerprint != first
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["figures", "model", "report.md"]


def _fail(*_: object, **__: object) -> None:
    raise AlignmentError("the disk is full")


def test_similarity_may_not_fall_either(artifact: str, pairs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "stsb" / "dev"
    folder.mkdir(parents=True)
    rows = [f"{number % 6}\t{PAIRS[number][0]}\t{PAIRS[number + 1][0]}\n" for number in range(40)]
    (folder / "en-en.tsv").write_text("".join(rows), encoding="utf-8")
    options = ["--pairs", str(pairs), "--out", str(tmp_path / "out"), "--data", str(tmp_path / "data"), "--force"]
    assert main([artifact, *options, *QUICK]) == 0
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "## Similarity (STS)" in report
    assert "| en-en | " in report


def test_a_checkpoint_gets_the_head_as_modules(tmp_path: Path) -> None:
    folder, out = tmp_path / "student", tmp_path / "aligned"
    save_student(folder, dim=24, record={})
    generator = np.random.default_rng(0)
    layer = Layer(*(generator.standard_normal(shape).astype(np.float32) for shape in ((24, 24), 24)), "tanh")
    head = Candidate((layer,), (0.1 * generator.standard_normal(24)).astype(np.float32), "made", 0.0)

    write_checkpoint(str(folder), out, head, alignment=ALIGNMENT, data=asdict(DataLicence("p", "CC0", "", 9)))
    texts = ["A man is playing a guitar.", "Ein Mann spielt Gitarre."]
    before = SentenceTransformer(str(folder), device="cpu").encode(texts)
    np.testing.assert_allclose(SentenceTransformer(str(out), device="cpu").encode(texts), head(before), atol=1e-5)
    record = (out / "crosslet.json").read_text(encoding="utf-8")
    assert '"licence": "CC0"' in record
    assert "61.25" not in record  # scores of the model before
    assert export(["--checkpoint", str(out), "--out", str(tmp_path / "exported"), "--precision", "fp32"]) == 0
    served = np.stack([one.vector for one in load_encoder(tmp_path / "exported").encode_all(texts)])
    np.testing.assert_allclose(served, head(before), atol=1e-4)
    assert "A head aligned zh-vi on 120 pairs" in (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")


def test_a_models_own_code_goes_with_it(tmp_path: Path) -> None:
    folder, out = Path(shutil.copytree(MINILM, tmp_path / "model")), tmp_path / "out"
    change(folder, CUSTOM_POOLING)
    (folder / "custom_pool.py").write_text(pooling_code(folder))
    layer = Layer(np.eye(384, dtype=np.float32), np.zeros(384, np.float32), "identity")
    head = Candidate((layer,), np.zeros(384, np.float32), "none", 0.0)
    write_checkpoint(str(folder), out, head, alignment=ALIGNMENT, data={}, trust_remote_code=True)
    assert type(load_sentence_transformer(str(out), trust_remote_code=True)[1]).__name__ == "MyPooling"
