import json
from pathlib import Path

import pytest

from export.__main__ import main
from export.quantization.quantize import quantise
from tests.export.checkpoints import MINILM, PARITY_TEXTS, STS_PAIRS, save_student, tied_unigram
from tests.export.sessions import CALIBRATION, fp32_graph


@pytest.fixture(scope="session")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with its record: one layer applied twice, a head of 24 dims; read-only for tests."""
    folder = tmp_path_factory.mktemp("student")
    save_student(folder, recurrences=2, dim=24, record={})
    return folder


@pytest.fixture(scope="session")
def student_artifact(student: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The student as fp32; read-only for tests."""
    out = tmp_path_factory.mktemp("artifacts") / "student"
    assert main(["--checkpoint", str(student), "--out", str(out), "--precision", "fp32"]) == 0
    return out


@pytest.fixture(scope="session")
def unigram_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student with a Unigram vocabulary and prompts, whose parity texts `tokenizers` cuts otherwise; read-only."""
    folder = tmp_path_factory.mktemp("unigram")
    checkpoint, out = folder / "checkpoint", folder / "artifact"
    record = {"parity_texts": {"en": ["hhhhh", *PARITY_TEXTS["en"]]}}
    save_student(checkpoint, tokenizer=tied_unigram(), record=record)
    settings = {"prompts": {"query": "query: ", "document": ""}}
    (checkpoint / "config_sentence_transformers.json").write_text(json.dumps(settings))
    assert main(["--checkpoint", str(checkpoint), "--out", str(out), "--precision", "fp32"]) == 0
    return out


@pytest.fixture(scope="session")
def static_graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A two-layer unit applied twice, in fp32 and in int8 with static steps; read-only for tests."""
    folder = tmp_path_factory.mktemp("static")
    save_student(folder / "checkpoint", layers=2, recurrences=2)
    fp32, int8 = fp32_graph(folder / "checkpoint", folder), folder / "int8.onnx"
    quantise(fp32, int8, calibration=CALIBRATION)
    return {"fp32": fp32, "int8": int8}


@pytest.fixture(scope="session")
def sts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sts") / "pairs.tsv"
    path.write_text("".join(f"{score}\t{left}\t{right}\n" for score, left, right in STS_PAIRS), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def minilm_artifact(sts_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """all-MiniLM-L6-v2, a checkpoint of others without a record, as int8; read-only for tests."""
    out = tmp_path_factory.mktemp("artifacts") / "minilm"
    options = ["--name", "all-MiniLM-L6-v2", "--languages", "en", "--sts", str(sts_file), "--max-sts-drop", "20"]
    assert main(["--checkpoint", str(MINILM), "--out", str(out), "--precision", "int8", *options]) == 0
    return out
