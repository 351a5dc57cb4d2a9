import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import pytest

from export.__main__ import main
from service.model.artifact import Manifest, load_manifest, load_parity, verify_files
from tests.export.checkpoints import MINILM, save_student, write_record


def test_the_artifact_verifies_and_says_what_it_is(student_artifact: Path) -> None:
    manifest = load_manifest(student_artifact)
    verify_files(student_artifact, manifest)
    assert (manifest.name, manifest.kind, manifest.precision) == ("tiny-student", "bi-encoder", "fp32")
    assert (manifest.dim, manifest.max_length, manifest.languages) == (24, 32, ("en", "de"))
    assert manifest.training == {
        "config": {"seed": 1, "student": {"recurrences": 2}, "evaluation": {"sts_rows": 5, "tatoeba_rows": 6}},
        "git_commit": "0123abc",
        "pairs_seen": {"assistant": 2000, "student": 1000},
        "weaknesses": ["Weakest on everything."],
    }
    assert manifest.data_licences[0].licence == "CC BY 2.0 FR"
    assert manifest.evaluation["stsb_test"] == {"en-de": 61.25, "average": 61.25}
    assert manifest.evaluation["export"]["min_cosine_to_torch"] >= 0.99999


def test_int8_of_a_checkpoint_of_others_passes_its_gate(minilm_artifact: Path) -> None:
    manifest = load_manifest(minilm_artifact)
    verify_files(minilm_artifact, manifest)
    assert (manifest.name, manifest.dim, manifest.max_length) == ("all-MiniLM-L6-v2", 384, 256)
    assert manifest.parameters == 22_565_376 - (512 - 256) * 384  # without unreachable positions
    assert manifest.files["model.onnx"].size_bytes < 1.03 * manifest.parameters
    figures = manifest.evaluation["export"]
    assert figures["mean_cosine_to_fp32"] >= 0.99
    assert figures["sts_pairs"] == 5
    assert {"sts_fp32", "sts_int8", "min_cosine_to_fp32", "min_cosine_to_torch"} < figures.keys()


def export(checkpoint: Path, out: Path, *options: str) -> Manifest:
    assert main(["--checkpoint", str(checkpoint), "--out", str(out), *options]) == 0
    manifest = load_manifest(out)
    verify_files(out, manifest)
    return manifest


def test_a_model_of_very_short_texts_is_exported(tmp_path: Path) -> None:
    save_student(tmp_path / "checkpoint", record={"max_length": 7})
    assert export(tmp_path / "checkpoint", tmp_path / "out", "--precision", "fp32").max_length == 7


def test_words_of_4_bits_halve_their_table(tmp_path: Path) -> None:
    save_student(tmp_path / "checkpoint", width=64, record={})
    eight, four = (
        export(tmp_path / "checkpoint", tmp_path / bits, "--word-bits", bits).files["model.onnx"].size_bytes
        for bits in ("8", "4")
    )
    rows = 30_522
    saved = rows * ((64 + 4) - (32 + 2 * 2 + 1))  # 8 bits and a scale a row; 4 bits, two scales and two half bytes
    assert abs((eight - four) - saved) < 1_000


def test_computed_padding_gives_the_same_vectors(tmp_path: Path) -> None:
    save_student(tmp_path / "checkpoint", record={})
    operators, vectors = {}, {}
    for padding in ("skipped", "computed"):
        out = tmp_path / padding
        manifest = export(tmp_path / "checkpoint", out, "--precision", "fp32", "--padding", padding)
        assert manifest.padding == padding
        operators[padding] = {node.op_type for node in onnx.load(out / "model.onnx").graph.node}
        vectors[padding] = load_parity(out, manifest).embeddings
    assert "NonZero" in operators["skipped"] - operators["computed"]
    np.testing.assert_allclose(vectors["skipped"], vectors["computed"], atol=1e-5)


def test_calibration_texts_of_a_file_or_the_record_fix_the_steps(tmp_path: Path) -> None:
    checkpoint, file = tmp_path / "checkpoint", tmp_path / "texts.txt"
    save_student(checkpoint, recurrences=2, record={})
    texts = ["A man is playing a guitar.", "Ein Mann spielt Gitarre.", "The train leaves at noon."]
    file.write_text("\n\n".join(texts), encoding="utf-8")
    drop = ("--max-sts-drop", "20")
    plain = export(checkpoint, tmp_path / "none", *drop)
    of_file = export(checkpoint, tmp_path / "file", *drop, "--calibration", str(file))
    write_record(checkpoint, calibration_texts=texts)
    of_record = export(checkpoint, tmp_path / "record", *drop)
    assert [one.activations for one in (plain, of_file, of_record)] == ["dynamic", "static", "static"]
    assert of_file.fingerprint == of_record.fingerprint != plain.fingerprint
    assert "padded to a multiple of four" in (tmp_path / "file" / "README.md").read_text(encoding="utf-8")


def test_steps_are_dynamic_where_fixed_ones_fail_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"calibration_texts": ["."]}  # nothing like the texts of the gate
    save_student(tmp_path / "checkpoint", layers=2, recurrences=2, record=record)
    assert export(tmp_path / "checkpoint", tmp_path / "out", "--min-cosine", "0.995").activations == "dynamic"
    error = capsys.readouterr().err
    assert "with fixed steps int8 refused: mean cosine to fp32 is 0." in error
    assert "steps are found in each pass instead" in error


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--precision fp32 --calibration {file}", "--calibration is for --precision int8"),
        ("--calibration none.txt", "none.txt cannot be read to its end"),
        ("--calibration /dev/null", "/dev/null has no text (--calibration)"),
        ("--precision fp32 --sts {file}", "--sts is for --precision int8"),
        ("--precision fp32 --word-bits 4", "--word-bits is for --precision int8"),
        ("--precision fp32 --min-cosine 0.9", "--min-cosine is for --precision int8"),
        ("--precision fp32 --max-sts-drop 1", "--max-sts-drop is for --precision int8"),
        ("--word-bits 4", "--word-bits 4: the table's width 16 is not a multiple of 32"),
        ("--precision int8 --min-cosine 0.99999999", "int8 refused: mean cosine to fp32 is 0.9"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    student: Path, sts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, complaint: str
) -> None:
    out = tmp_path / "models" / "student"
    assert main(["--checkpoint", str(student), "--out", str(out), *options.format(file=sts_file).split()]) == 2
    assert complaint in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_refused_before_any_work(
    student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").touch()
    assert main(["--checkpoint", str(student), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"export: {tmp_path} exists; --force replaces it\n"


@pytest.mark.slow
def test_another_process_gives_the_same_fingerprint(student: Path, student_artifact: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    command = [sys.executable, "-m", "export", "--checkpoint", str(student), "--out", str(out), "--precision", "fp32"]
    subprocess.run(command, check=True, capture_output=True)
    assert load_manifest(out).fingerprint == load_manifest(student_artifact).fingerprint


@pytest.mark.slow
def test_the_same_checkpoint_gives_the_same_int8_fingerprint(minilm_artifact: Path, tmp_path: Path) -> None:
    again = export(MINILM, tmp_path / "again", "--name", "x", "--languages", "en")
    assert again.fingerprint == load_manifest(minilm_artifact).fingerprint


def test_a_name_that_the_system_refuses_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--checkpoint", str(tmp_path), "--out", str(tmp_path / ("x" * 300))]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("export: ")
    assert "File name too long" in line


def test_ctrl_c_is_one_word_and_exit_code_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("export.__main__.export_artifact", Mock(side_effect=KeyboardInterrupt))
    assert main(["--checkpoint", str(tmp_path), "--out", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err == "export: stopped\n"


@pytest.mark.parametrize("package", ["export", "training"])
def test_without_a_temporary_folder_there_is_one_sentence(package: str) -> None:
    code = f"import tempfile; tempfile._candidate_tempdir_list = lambda: ['/proc/none']; import {package}.__main__"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("error: no temporary folder can be written (No usable temporary directory")
