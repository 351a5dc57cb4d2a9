"""`crosslet adapt`: from a model and a file of pairs to a better model of the same kind."""

import json
import re
from pathlib import Path

import pytest

from service.model.artifact import load_manifest
from service.model.encoder import load_encoder
from tests.artifacts import build_artifact
from tests.training.alignment.files import PAIRS, write_pairs
from training.adaptation.__main__ import main
from training.evaluation.bitext import score_bitext
from training.evaluation.encoders import load_model
from training.models.sentence_encoder import load_sentence_encoder

QUICK = ["--epochs", "2", "--learning-rate", "0.001", "--force"]
TEST = PAIRS[200:]


def served(folder: Path) -> dict[str, float]:
    model = load_model(str(folder))
    return score_bitext(*(model.encode(list(side)) for side in zip(*TEST, strict=True)))


def test_pairs_make_an_artifact_find_more_translations_and_it_is_stored_as_before(
    artifact: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, test = tmp_path / "out", write_pairs(tmp_path / "test.tsv", TEST)
    assert main([str(artifact), "--pairs", str(pairs), "--test", str(test), "--out", str(out), *QUICK]) == 0
    before, after = load_manifest(artifact), load_manifest(out / "model")
    facts = after.evaluation["adaptation"]
    assert facts["scores"] == {"before": served(artifact), "after": served(out / "model")}
    assert facts["scores"]["after"]["p1"] > facts["scores"]["before"]["p1"] + 10
    assert facts["before"] == before.fingerprint != after.fingerprint
    assert (facts["languages"], facts["pairs"], facts["test_pairs"]) == ("en-de", 180, 100)
    assert (after.precision, after.activations, after.parameters) == ("int8", "static", before.parameters)
    sizes = [manifest.files["model.onnx"].size_bytes for manifest in (before, after)]
    assert abs(sizes[1] - sizes[0]) < 0.1 * sizes[0]
    assert after.data_licences[-1].pairs == 180
    assert load_encoder(out / "model").encode_all(["Der Arzt kauft das Brot."])
    report = (out / "report.md").read_text(encoding="utf-8")
    for part in ("## Translations found", "| before |", "## Strengths that were tried", "pieces a word", "## Every"):
        assert part in report
    assert {path.name for path in out.iterdir()} == {"model", "report.md", "figures"}
    card = (out / "model" / "README.md").read_text(encoding="utf-8")
    assert "Trained further for en-de on 180 pairs" in card
    shown = capsys.readouterr()
    assert "en-de, 100 test pairs: P@1 " in shown.out
    bars = [line.partition(":")[0] for line in re.split(r"[\r\n]+", shown.err) if "| 0/" in line]
    assert list(dict.fromkeys(bars)) == ["scores before", "labels", "adapt", "scores after"]


def test_a_checkpoint_stays_a_checkpoint_and_frozen_parts_stay_as_they_were(
    checkpoint: Path, pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert main([str(checkpoint), "--pairs", str(pairs), "--out", str(out), "--unfreeze", "words", *QUICK]) == 0
    before, after = (load_sentence_encoder(folder).state_dict() for folder in (checkpoint, out / "model"))
    changed = {name for name, tensor in before.items() if not tensor.equal(after[name])}
    assert changed == {"encoder.body.embeddings.word_embeddings.table.weight"}
    record = json.loads((out / "model" / "crosslet.json").read_text(encoding="utf-8"))
    assert set(record["evaluation"]) == {"adaptation"}
    assert record["name"] == "tiny-student-en-de"


def test_a_model_that_gains_nothing_is_refused_and_leaves_its_report_alone(
    checkpoint: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [str(checkpoint), "--pairs", str(pairs), "--out", str(tmp_path / "out"), "--epochs", "1"]
    assert main([*options, "--learning-rate", "1e-12"]) == 1
    assert "refused: nothing gained on dev" in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.md", "figures"}


def test_what_cannot_be_done_is_one_sentence_and_nothing_is_written(
    checkpoint: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few, leaked = write_pairs(tmp_path / "en-fr.tsv", PAIRS[:10]), write_pairs(tmp_path / "t.tsv", PAIRS[150:250])
    build_artifact(tmp_path / "tiny")
    given, ours = ["--pairs", str(pairs)], str(checkpoint)
    for options, sentence in (
        ([ours, "--pairs", str(few)], "has 10 distinct pairs; at least 100 are needed"),
        ([ours, *given, "--test", str(leaked)], "50 of the 100 pairs of"),
        ([str(tmp_path / "none"), *given], "there is no folder"),
        ([str(tmp_path / "tiny"), *given], "restore supports only mean-pooled bi-encoders"),
        ([ours, *given, "--data", str(tmp_path)], "has no stsb/dev and no eval/stsb/dev"),
        ([ours, *given, "--learning-rate", "1e30"], "training diverged at rate 1e+30; lower --learning-rate"),
    ):
        assert main([*options, "--out", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("error: ")
        assert sentence in error
        assert not (tmp_path / "out").exists()
