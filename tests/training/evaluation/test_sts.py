from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics.pairwise import cosine_similarity

from tests.training.files import write
from training.errors import EvaluationError
from training.evaluation.sts import DevScore, evaluate_sts, find_sts, is_monolingual, read_sts, spearman_of_cosines

ROWS = [(5.0, "abc", "def"), (0.0, "a", "long sentence"), (2.5, "abc", "abcdefg")]


def encode_by_length(texts: list[str]) -> np.ndarray:
    """A stand-in encoder: an angle that grows with length, so that equal lengths are nearest."""
    angle = np.array([len(text) for text in texts]) / 50
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def test_spearman_of_cosines_agrees_with_scipy_and_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    left, right = generator.standard_normal((2, 50, 8)).astype(np.float32)
    gold = generator.integers(0, 5, 50).astype(float).tolist()  # with ties
    expected = spearmanr(np.diag(cosine_similarity(left, right)), gold).statistic * 100
    assert spearman_of_cosines(left, right, gold) == pytest.approx(expected)


def test_an_encoder_that_gives_one_vector_for_all_scores_nothing() -> None:
    same = np.ones((3, 4), dtype=np.float32)
    assert spearman_of_cosines(same, same, [1.0, 2.0, 3.0]) == 0


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_three_layouts_give_the_same_rows(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"en-de.tsv{suffix}", *(f"{score}\t{left}\t{right}" for score, left, right in ROWS))
    write(tmp_path / f"STS.en-tr.txt{suffix}", *(f"{left}\t{right}\t{score}" for score, left, right in ROWS))
    write(tmp_path / f"STS.input.track5.en-en.txt{suffix}", *(f"{left}\t{right}" for _, left, right in ROWS))
    write(tmp_path / f"STS.gs.track5.en-en.txt{suffix}", *(str(score) for score, _, _ in ROWS))
    found = find_sts(tmp_path)
    assert list(found) == ["STS.en-tr".removeprefix("STS."), "en-en", "en-de"]
    for read in found.values():
        assert list(zip(*read(), strict=True)) == ROWS


def test_gold_may_be_in_a_sibling_folder_and_tracks_are_apart(
    tmp_path: Path,
) -> None:
    for track in ("4a", "4b"):
        write(tmp_path / f"STS2017.eval.v1.1/STS.input.track{track}.es-en.txt", "hola\thi", "adios\tdog")
        write(tmp_path / f"STS2017.gs/STS.gs.track{track}.es-en.txt", "4.5", "1")
    found = find_sts(tmp_path / "STS2017.eval.v1.1")
    assert list(found) == ["es-en", "es-en.4b"]
    assert found["es-en.4b"]() == ([4.5, 1.0], ["hola", "adios"], ["hi", "dog"])
    assert not is_monolingual("es-en.4b")


def test_pairs_are_scored_and_missing_ones_left_out(tmp_path: Path) -> None:
    write(tmp_path / "en-de.tsv", *(f"{score}\t{left}\t{right}" for score, left, right in ROWS))
    assert evaluate_sts(encode_by_length, tmp_path, ["en-de", "en-fr"]) == {"en-de": 100.0}
    assert evaluate_sts(encode_by_length, tmp_path / "none", ["en-de"]) == {}


@pytest.mark.parametrize("rows", [["3\ta\tb"], ["3\ta\tb", "3\tc\tdef"], []])
def test_a_set_without_two_scores_is_left_out_with_a_word(
    tmp_path: Path, rows: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "en-de.tsv", *(f"{score}\t{left}\t{right}" for score, left, right in ROWS))
    write(tmp_path / "en-fr.tsv", *(rows or ["5\ta\tb", "1\tc\td", "5\te\tf"]))  # of the last, two rows are read
    scores = evaluate_sts(encode_by_length, tmp_path, ["en-de", "en-fr"], rows=None if rows else 2)
    assert scores.keys() == {"en-de"}
    assert f"{tmp_path}: en-fr is left out: it has {len(rows) or 2} rows and no two different scores" in caplog.text


def test_a_dev_set_without_two_scores_counts_for_nothing(tmp_path: Path) -> None:
    write(tmp_path / "eval/stsb/dev/en-de.tsv", *(f"{score}\t{left}\t{right}" for score, left, right in ROWS))
    write(tmp_path / "eval/stsb/dev/en-fr.tsv", "3\ta\tb", "3\tc\tdef")
    assert DevScore(tmp_path, ["de", "fr"]).by_pair(encode_by_length) == {"en-de": 100.0}
    with pytest.raises(EvaluationError, match="has no file with two different scores: nothing to validate on"):
        DevScore(tmp_path, ["fr"])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("5\tonly one", "line 2 has 2 columns; the layout is score<TAB>sentence1<TAB>sentence2"),
        ("5\tone\t ", "line 2 has an empty column"),
        ("high\tone\ttwo", "line 2 has a score that is not a number"),
        ("nan\tone\ttwo", "line 2 has a score that is not a number"),
    ],
)
def test_malformed_line_is_named_by_number_and_not_quoted(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path / "en-de.tsv", "5\tone\ttwo", line)
    with pytest.raises(EvaluationError) as raised:
        read_sts(path)
    assert str(raised.value).startswith(f"{path} {complaint}")
    assert "one" not in str(raised.value).removeprefix(str(path))


def test_input_without_gold_or_with_fewer_scores_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data/STS.input.en-en.txt", "a\tb", "c\td")
    read = find_sts(path.parent)["en-en"]
    with pytest.raises(EvaluationError, match=r"has no gold file: STS\.gs\.en-en\.txt"):
        read()
    write(tmp_path / "data/STS.gs.en-en.txt", "1")
    with pytest.raises(EvaluationError, match=r"has 2 lines, but its gold file .* has 1$"):
        read()


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_a_file_without_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "en-de.tsv"
    path.write_bytes(content)
    with pytest.raises(EvaluationError, match="is empty"):
        read_sts(path)


def test_dev_score_is_spearman_on_evenly_spaced_rows(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    expected = {}
    for language in ("de", "fr"):
        lengths = generator.integers(1, 40, (101, 2))
        gold = generator.uniform(0, 5, 101).round(2)
        rows = [f"{score}\t{'x' * left}\t{'y' * right}" for score, (left, right) in zip(gold, lengths, strict=True)]
        write(tmp_path / f"eval/stsb/dev/en-{language}.tsv", *rows)
        every_tenth = -np.abs(lengths[::10, 0] - lengths[::10, 1])  # the cosine falls with the difference in length
        expected[f"en-{language}"] = spearmanr(every_tenth, gold[::10]).statistic * 100
    score = DevScore(tmp_path, ["de", "fr", "th"], rows=11)
    assert score.by_pair(encode_by_length) == pytest.approx(expected)
    with pytest.raises(EvaluationError, match=r"has no en-<language>\.tsv for th: nothing to validate on"):
        DevScore(tmp_path, ["th"])


def test_parts_are_named_and_train_parts_left_out(tmp_path: Path) -> None:
    for name in ("valid.ja-ja", "train.ja-ja", "images.trial.cs-cs", "images.test.cs-cs"):
        write(tmp_path / f"{name}.tsv", "1.5\ta\tb")
    write(tmp_path / "test.en-de.tsv", "weather/find\ta\tb")  # of another kind
    found = find_sts(tmp_path)
    assert list(found) == ["cs-cs.images.test", "ja-ja.valid"]
    assert found["ja-ja.valid"]() == ([1.5], ["a"], ["b"])
    assert all(is_monolingual(pair) for pair in found)


def test_any_sts_set_may_be_the_dev_set_scored_by_pair(tmp_path: Path) -> None:
    rows = [("x" * left, "y" * right, abs(left - right)) for left, right in ((3, 9), (2, 2), (8, 4), (5, 7))]
    for pair in ("en-ar", "es-en"):  # STS2017 names some pairs en-xx, others xx-en
        falling = pair == "en-ar"
        lines = [f"{left}\t{right}\t{5 - gap / 2 if falling else gap / 2}" for left, right, gap in rows]
        write(tmp_path / f"eval/STS2017-extended/STS.{pair}.txt", *lines)
    score = DevScore(tmp_path, ["ar", "es"], dev="STS2017-extended")
    assert score.by_pair(encode_by_length) == pytest.approx({"en-ar": 100.0, "en-es": -100.0})
