import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics.pairwise import cosine_similarity

from tests.artifacts import build_artifact
from training.evaluation.__main__ import main
from training.evaluation.report import with_average
from training.evaluation.retrieval import evaluate_tatoeba, precision_at_1
from training.evaluation.sts import evaluate_sts, read_sts, spearman_of_cosines


def test_spearman_of_cosines_agrees_with_scipy_and_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    left, right = generator.standard_normal((2, 50, 8)).astype(np.float32)
    gold = generator.uniform(0, 5, 50).tolist()
    expected = spearmanr(np.diag(cosine_similarity(left, right)), gold).statistic * 100
    assert spearman_of_cosines(left, right, gold) == pytest.approx(expected)


def test_precision_at_1_of_a_hand_computed_case() -> None:
    candidates = np.eye(3, dtype=np.float32)
    queries = np.array([[1, 0, 0], [0.9, 0.1, 0], [0, 0, 5]], dtype=np.float32)  # the second prefers candidate 0
    assert precision_at_1(queries, candidates) == pytest.approx(100 * 2 / 3)


def encode_by_length(texts: list[str]) -> np.ndarray:
    """A stand-in encoder: an angle that grows with length, so that equal lengths are nearest."""
    angle = np.array([len(text) for text in texts]) / 50
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def test_sts_files_are_scored_by_pair_and_missing_ones_left_out(tmp_path: Path) -> None:
    (tmp_path / "en-de.tsv").write_text("5\tabc\tdef\n0\ta\tlong sentence\n2.5\tabc\tabcdefg\n", encoding="utf-8")
    assert read_sts(tmp_path / "en-de.tsv")[0] == [5.0, 0.0, 2.5]
    assert evaluate_sts(encode_by_length, tmp_path, ["en-de", "en-fr"]) == {"en-de": 100.0}


def test_tatoeba_is_averaged_over_both_directions(tmp_path: Path) -> None:
    (tmp_path / "tatoeba.deu-eng.deu").write_text("a\nbbb\nccccc\n", encoding="utf-8")
    (tmp_path / "tatoeba.deu-eng.eng").write_text("x\nyyy\nzzz\n", encoding="utf-8")
    # German to English: a->x, bbb->yyy, ccccc->yyy (first of two equals): 2/3. Back: x->a, yyy->bbb, zzz->bbb: 2/3.
    assert evaluate_tatoeba(encode_by_length, tmp_path, ["de", "fr"]) == {"de": pytest.approx(66.67)}


def test_an_average_is_added() -> None:
    assert with_average({"de": 60.0, "fr": 70.0}) == {"de": 60.0, "fr": 70.0, "average": 65.0}


def test_an_artifact_is_scored_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    build_artifact(artifact)
    languages = json.loads((artifact / "manifest.json").read_text())["languages"]
    other = next(language for language in languages if language != "en")
    folder = tmp_path / "data/eval/stsb/test"
    folder.mkdir(parents=True)
    rows = "5\ta man plays\ta man plays\n0\ta man plays\tthe market fell\n3\ta man\ta man plays\n"
    (folder / f"en-{other}.tsv").write_text(rows, encoding="utf-8")
    assert main([str(artifact), "--data", str(tmp_path / "data")]) == 0
    scores = json.loads(capsys.readouterr().out)["stsb_test"]
    assert scores[f"en-{other}"] == scores["average"] > 0


def test_what_is_no_artifact_or_has_nothing_to_evaluate_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "--data", str(tmp_path)]) == 2
    assert "is not an artifact: it has no manifest.json" in capsys.readouterr().err
    build_artifact(tmp_path)
    assert main([str(tmp_path), "--data", str(tmp_path)]) == 2
    assert "has no file for" in capsys.readouterr().err
