import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer
from torch import nn

from export.__main__ import main as export
from export.checkpoint import read_record
from export.restore.__main__ import main
from export.restore.source import WORDS
from export.restore.weights import read_weights
from service.model.artifact import load_manifest, load_parity
from tests.export.checkpoints import MINILM, PARITY_TEXTS, save_student
from training.config.run import StudentConfig
from training.models.encoder import rounded, word_table
from training.models.sentence_encoder import load_sentence_encoder
from training.models.start import assistant_from_base, student_from_assistant

DEFAULT = Path(__file__).parents[2] / "models" / "default"
TEXTS = [text for texts in PARITY_TEXTS.values() for text in texts]


def vectors(artifact: Path) -> npt.NDArray[np.float64]:
    """The unit vectors of the parity pack."""
    return np.array(load_parity(artifact, load_manifest(artifact)).embeddings)


def test_fp32_student_is_restored_with_unrolled_recurrences(student_artifact: Path, tmp_path: Path) -> None:
    assert main([str(student_artifact), "--out", str(tmp_path / "out")]) == 0
    restored = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert restored[0].auto_model.config.num_hidden_layers == 2
    assert restored.max_seq_length == 32
    texts = load_parity(student_artifact, load_manifest(student_artifact)).texts
    np.testing.assert_allclose(restored.encode(list(texts)), vectors(student_artifact), atol=1e-5)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert len(modes) == 1, modes  # the weights as all others


@pytest.mark.parametrize("word_bits", ["8", "4"])
def test_int8_with_static_steps_is_restored_up_to_rounding(tmp_path: Path, word_bits: str) -> None:
    checkpoint, artifact, out = (tmp_path / name for name in ("checkpoint", "artifact", "out"))
    save_student(checkpoint, layers=2, recurrences=2, width=32, record={"calibration_texts": TEXTS})
    assert export(["--checkpoint", str(checkpoint), "--out", str(artifact), "--word-bits", word_bits]) == 0
    assert load_manifest(artifact).activations == "static"
    assert main([str(artifact), "--out", str(out)]) == 0
    trained = SentenceTransformer(str(checkpoint), device="cpu")[0].auto_model.state_dict()
    restored = SentenceTransformer(str(out), device="cpu")[0].auto_model.state_dict()
    matrix = trained["body.encoder.layer.1.output.dense.weight"]
    for layer in (1, 3):
        found = restored[f"encoder.layer.{layer}.output.dense.weight"]
        assert (found - matrix).abs().max() < 0.02 * matrix.abs().max()
    table, projection = (trained[f"body.embeddings.word_embeddings.{part}.weight"] for part in ("table", "projection"))
    words = restored["embeddings.word_embeddings.weight"]
    assert torch.cosine_similarity(words[1000:1100], (table @ projection.T)[1000:1100]).min() > 0.98


def test_a_restored_checkpoint_has_the_words_as_they_are_stored(tmp_path: Path) -> None:
    checkpoint, artifact, restored = (tmp_path / name for name in ("checkpoint", "artifact", "restored"))
    save_student(checkpoint, layers=2, recurrences=1, width=32, record={"calibration_texts": TEXTS})
    assert export(["--checkpoint", str(checkpoint), "--out", str(artifact), "--word-bits", "4"]) == 0
    assert main([str(artifact), "--out", str(restored), "--checkpoint"]) == 0
    table_VB = word_table(load_sentence_encoder(restored).encoder).weight.detach()
    stored_VB = read_weights(onnx.load(artifact / "model.onnx")).state[f"{WORDS}.weight"]
    np.testing.assert_array_equal(table_VB.numpy(), stored_VB)
    apart = torch.linalg.norm(rounded(table_VB) - table_VB) / torch.linalg.norm(table_VB)
    assert apart < 0.02  # the next export stores almost the same: few blocks have lost their extremes
    assert read_record(restored).languages == load_manifest(artifact).languages


@pytest.mark.slow
def test_training_continues_from_the_bundled_model(tmp_path: Path) -> None:
    assert main([str(DEFAULT), "--out", str(tmp_path / "out")]) == 0
    restored = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    pad_id = int(restored.tokenizer.pad_token_id)
    assistant = assistant_from_base(restored, dim=384, normalized=True, pad_id=pad_id, seed=1)
    frequency_V = np.ones(len(restored.tokenizer), dtype=np.int64)
    student = student_from_assistant(
        assistant, StudentConfig(bottleneck_size=256, unit_layers=9, recurrences=1), frequency_V, seed=1
    )
    texts = load_parity(DEFAULT, load_manifest(DEFAULT)).texts
    batches = [restored.tokenizer([text], truncation=True, return_tensors="pt") for text in texts]
    with torch.no_grad():
        found = torch.cat([student.eval()(batch["input_ids"], batch["attention_mask"]) for batch in batches])
    assert (found.double().numpy() * vectors(DEFAULT)).sum(axis=1).min() > 0.99


@pytest.mark.parametrize(
    ("artifact", "reason"), [("minilm_artifact", "its int8 steps are dynamic"), ("tiny_model", "padding computed")]
)
def test_an_artifact_of_other_settings_is_refused(
    artifact: str, reason: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(request.getfixturevalue(artifact)), "--out", str(tmp_path / "out")]) == 2
    assert f"{reason}; restore supports only" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_damaged_artifact_is_refused(
    student_artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = shutil.copytree(student_artifact, tmp_path / "damaged")
    content = bytearray((damaged / "model.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / "model.onnx").write_bytes(content)
    assert main([str(damaged), "--out", str(tmp_path / "out")]) == 2
    assert "model.onnx" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def linear(width: int, dim: int, activation: nn.Module | None = None, *, bias: bool = True) -> Dense:
    return Dense(width, dim, bias=bias, activation_function=activation or nn.Identity())


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ([linear(384, 24), linear(24, 12)], "several"),
        ([linear(384, 24, bias=False)], "restore supports only"),
        ([linear(384, 24, nn.Tanh())], "its activations are not one GELU a layer"),
        ([linear(384, 24, nn.GELU())], "its activations are not one GELU a layer"),
    ],
    ids=["two heads", "a head without bias", "a head with tanh", "a head with GELU"],
)
def test_a_graph_that_it_cannot_read_is_refused(
    modules: list[nn.Module], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint, artifact = tmp_path / "checkpoint", tmp_path / "artifact"
    parts = [Transformer(str(MINILM)), Pooling(384, "mean"), *modules]
    SentenceTransformer(modules=parts, device="cpu").save(str(checkpoint), create_model_card=False)
    options = ["--precision", "fp32", "--name", "headed", "--languages", "en"]
    assert export(["--checkpoint", str(checkpoint), "--out", str(artifact), *options]) == 0
    assert main([str(artifact), "--out", str(tmp_path / "out")]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_refused(
    student_artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept").write_text("mine", encoding="utf-8")
    assert main([str(student_artifact), "--out", str(tmp_path)]) == 2
    assert "exists; choose another --out" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
