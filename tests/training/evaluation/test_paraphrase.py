import gzip
from pathlib import Path

import numpy as np
import pytest

from export.evaluation.scoring import Choice, evaluate_folder
from tests.training.files import write
from training.evaluation.paraphrase import evaluate_paraphrases, find_paraphrases


def encode_by_letters(texts: list[str]) -> np.ndarray:
    return np.array([[text.count(letter) + 0.01 for letter in "abc"] for text in texts], dtype=np.float32)


def test_labels_all_alike_tell_nothing() -> None:
    rows = [("1", "a", "b"), ("1", "a", "a")]
    assert evaluate_paraphrases(encode_by_letters, {"de": rows}, ["de"])["auc"] == {"de": 50}


def test_without_a_row_of_two_sides_a_language_is_left_out() -> None:
    sets = {"en": [("1", "", "b"), ("0", "a", "c")], "de": [("1", "a", "b"), ("0", "a", "")], "fr": [("1", "a", " ")]}
    scores = evaluate_paraphrases(encode_by_letters, sets, ["de", "fr"])
    assert scores == {"auc": {"de": 50}, "auc_against_english": {}}


def test_sides_are_compared_within_a_language_and_with_english(tmp_path: Path) -> None:
    write(tmp_path / "dev.en.tsv", "1\taa\taa", "0\tbb\tbb", "1\tcc\tcc")
    with gzip.open(tmp_path / "dev.de.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("1\tb\ta\n0\tb\ta\n1\t\tc\n")  # an empty side
    scores = evaluate_paraphrases(encode_by_letters, find_paraphrases(tmp_path), ["en", "de"])
    assert scores == {"auc": {"en": 50.0, "de": 50.0}, "auc_against_english": {"de": 100.0}}


@pytest.mark.parametrize("line", ["neutral\ta\tb", "2\ta\tb", "1\ta"])
def test_files_of_another_layout_are_no_such_set(tmp_path: Path, line: str) -> None:
    write(tmp_path / "dev.de.tsv", "1\ta\tb", line)
    assert find_paraphrases(tmp_path) == {}


def test_paraphrase_sets_are_found_without_train_parts(tmp_path: Path) -> None:
    (tmp_path / "eval/pawsx").mkdir(parents=True)
    for part in ("dev", "train"):
        write(tmp_path / f"eval/pawsx/{part}.de.tsv", "1\ta\ta", f"0\ta\t{'b' if part == 'dev' else 'a'}")
    scores = evaluate_folder(encode_by_letters, tmp_path, Choice(("paraphrase",)))
    assert scores == {"pawsx_auc": {"de": 100.0, "average": 100.0}}
