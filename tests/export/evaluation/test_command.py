import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from export.evaluation.__main__ import main
from tests.artifacts import build_artifact
from tests.skeleton.project import ROOT
from tests.training.evaluation.test_encoders import write_sets


@pytest.fixture
def artifact(tmp_path: Path) -> str:
    build_artifact(tmp_path / "artifact")
    return str(tmp_path / "artifact")


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(write_sets(tmp_path / "data"))


def test_an_artifact_is_scored_in_its_own_languages(
    artifact: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([artifact, "--data", data]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["stsb_test"].keys() == {"en-de", "en-fr", "average"}
    assert scores["stsb_test"]["average"] > 0


def test_scores_are_written_and_printed_as_tables(
    artifact: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [artifact, "--data", data, "--sets", "bitext", "--languages", "de", "--markdown"]
    assert main([*arguments, "--out", str(tmp_path / "scores.json")]) == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["tatoeba_p1"].keys() == {"de", "average"}
    assert f"| tatoeba_p1 | {scores['tatoeba_p1']['de']:.2f} |" in capsys.readouterr().out


def test_a_given_threshold_is_used(artifact: str, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([artifact, "--data", data, "--sets", "mining", "--threshold", "99"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["tatoeba_mining_threshold"] == {"de": 99, "fr": 99}
    assert scores["tatoeba_mining_recall"]["average"] == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["./none", "--data", "{data}"], "there is no folder ./none"),
        (["{data}", "--data", "{data}"], "is not a model: it has no manifest.json (an artifact), no modules.json"),
        (["{artifact}", "--data", "none"], "there is no folder none"),
        (["{artifact}", "--data", "{artifact}"], "has no evaluation set for sts, paraphrase, bitext, mining"),
        (["{artifact}", "--data", "{data}", "--languages", "th", "--sets", "sts"], "no evaluation set for sts in th"),
        (["{artifact}", "--data", "{data}", "--dimensions", "0"], "--dimensions is 0; it must be at least 1"),
        (["{artifact}", "--data", "{data}", "--calibrate", "--dimensions", "8"], "leave --dimensions out"),
        (["{artifact}", "--data", "{data}", "--out", "none/scores.json"], "the folder of --out does not exist: none"),
    ],
)
def test_what_cannot_be_scored_is_one_sentence(
    artifact: str, data: str, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main([argument.format(artifact=artifact, data=data) for argument in arguments]) == 2
    output = capsys.readouterr()
    assert output.err.startswith("error: ")
    assert complaint in output.err
    assert output.err.count("\n") == 1
    assert not output.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["models/defualt"], "error: there is no folder models/defualt; did you mean models/default?\n"),
        (["models/default", "--baseline", "./modles"], "error: there is no folder ./modles; did you mean models?\n"),
        (["models/default", "--data", "modles"], "error: there is no folder modles; did you mean models?\n"),
        (["models/default", "--out", "none/scores.json"], "error: the folder of --out does not exist: none\n"),
        (["models/default", "--rerank-k", "9"], "error: --rerank-k re-ranks what an encoder found"),
        (["models/default", "--baseline", "models/default", "--rerank-k", "0"], "--rerank-k is 0; it must be at least"),
        (["models/default", "--queries", "-1"], "error: --queries is -1; it must be at least 1\n"),
        (["models/default", "--distractors", "-1"], "error: --distractors is -1; it must be at least 0\n"),
        (["models/default", "--failures", "-1"], "error: --failures is -1; it must be at least 0\n"),
        (["models/default", "--calibrate", "--plot", "none/x.svg"], "the folder of --plot does not exist: none\n"),
        (["models/default", "--rerank-weight", "2"], "--rerank-weight: 2 is neither a number in [0, 1] nor the word"),
        (["models/default", "--rerank-weight", "all"], "--rerank-weight: all is neither a number in [0, 1] nor the w"),
        (["models/default", "--sets", "glue"], "glue is not one of sts, paraphrase, bitext, mining, retrieval, search"),
        (["models/default", "--marktown"], "--marktown is no option of `crosslet evaluate`; did you mean --markdown?"),
    ],
)
def test_a_typo_is_answered_before_anything_slow_is_imported(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "models" / "default").mkdir(parents=True)
    code = f"""
import sys
from export.evaluation.__main__ import main
try:
    status = main({arguments!r})
except SystemExit as exc:
    status = exc.code
print(status, sorted({{"numpy", "scipy", "sklearn", "torch"}} & sys.modules.keys()))
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 []\n"
    assert complaint in done.stderr


def test_a_damaged_artifact_is_refused_by_the_services_own_check(
    artifact: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(artifact) / "model.onnx").write_bytes(b"damaged")
    assert main([artifact, "--data", data]) == 2
    assert "model.onnx has 7 bytes; the manifest says" in capsys.readouterr().err


def test_a_folder_with_a_broken_model_is_one_sentence(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no-such-type"}')
    assert main([str(tmp_path), "--data", data]) == 2
    assert f"error: model '{tmp_path}' cannot be loaded: " in capsys.readouterr().err


def test_a_malformed_line_ends_the_command_with_its_place(
    artifact: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(data) / "stsb/test/en-de.tsv").write_text("5\tone\ttwo\n4\tone\n")
    assert main([artifact, "--data", data, "--sets", "sts"]) == 2
    assert "en-de.tsv line 2 has 2 columns; the layout is score<TAB>sentence1<TAB>sentence2" in capsys.readouterr().err
