from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import top_k_accuracy_score
from sklearn.metrics.pairwise import cosine_similarity

from tests.training.evaluation.test_sts import encode_by_length
from tests.training.files import write
from training.errors import EvaluationError
from training.evaluation import vectors
from training.evaluation.bitext import (
    LONGEST_CELL,
    evaluate_tatoeba,
    failures_markdown,
    find_bitext,
    score_bitext,
    worst_failures,
)


def test_precision_agrees_with_scikit_learn_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "CHUNK_SCORES", 100)  # two rows at a time
    generator = np.random.default_rng(0)
    left = generator.standard_normal((50, 8)).astype(np.float32)
    right = left + generator.standard_normal((50, 8)).astype(np.float32)
    cosine = cosine_similarity(left, right)
    scores = score_bitext(left, right)
    for k in (1, 5):
        forward, backward = (100 * top_k_accuracy_score(range(50), each, k=k) for each in (cosine, cosine.T))
        assert scores[f"p{k}_forward"] == pytest.approx(forward)
        assert scores[f"p{k}_backward"] == pytest.approx(backward)
        assert scores[f"p{k}"] == pytest.approx((forward + backward) / 2)
    assert scores["p1"] < scores["p5"] < 100


def test_tatoeba_is_averaged_over_both_directions(tmp_path: Path) -> None:
    write(tmp_path / "tatoeba.deu-eng.deu", "a", "bbb", "ccccc")
    write(tmp_path / "tatoeba.deu-eng.eng", "x", "yyy", "zzz")
    # German to English: a->x, bbb->yyy, ccccc->yyy (first of two equals): 2/3. Back: x->a, yyy->bbb, zzz->bbb: 2/3.
    assert evaluate_tatoeba(encode_by_length, tmp_path, ["de", "fr"]) == {"de": pytest.approx(66.67)}
    assert evaluate_tatoeba(encode_by_length, tmp_path, ["de"], rows=2) == {"de": 100}
    assert evaluate_tatoeba(encode_by_length, tmp_path / "none", ["de"]) == {}


def test_labels_are_languages_pairs_and_names_of_tables(tmp_path: Path) -> None:
    for name in (
        "tatoeba.cmn-eng.cmn",
        "tatoeba.cmn-eng.eng",
        "news.deu-fra.deu.gz",
        "news.deu-fra.fra.gz",
        "README.md",
    ):
        write(tmp_path / "aligned" / name, "one\u2028line")  # U+2028 ends no line
    write(tmp_path / "zh-vi/test448.tsv", "你好\txin chao")
    aligned = find_bitext(tmp_path / "aligned")
    assert list(aligned) == ["de-fr", "zh"]
    assert aligned["zh"].languages == ("zh", "en")
    assert aligned["de-fr"].read() == (["one\u2028line"], ["one\u2028line"])
    table = find_bitext(tmp_path / "zh-vi")["test448"]
    assert (table.languages, table.read()) == (("zh", "vi"), (["你好"], ["xin chao"]))


@pytest.mark.parametrize(("theirs", "ours"), [("ben", "bn"), ("zsm", "ms"), ("lvs", "lv"), ("kab", "kab")])
def test_a_tatoeba_file_is_found_under_the_code_of_our_pairs(tmp_path: Path, theirs: str, ours: str) -> None:
    """One without a two-letter code keeps its own."""
    for side in (theirs, "eng"):
        write(tmp_path / f"tatoeba.{theirs}-eng.{side}", "a")
    assert list(find_bitext(tmp_path)) == [ours]


def test_sides_of_different_length_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "t.deu-eng.deu", "eins", "zwei")
    write(tmp_path / "t.deu-eng.eng", "one")
    with pytest.raises(EvaluationError, match=r"t\.deu-eng\.deu has 2 lines, .*t\.deu-eng\.eng has 1"):
        find_bitext(tmp_path)["de"].read()


def test_flores_languages_are_against_english_in_test_parts(tmp_path: Path) -> None:
    for part in ("dev", "devtest"):
        for language in ("en", "de", "zh_Hant"):
            write(tmp_path / f"{part}.{language}.txt", f"{part} {language}")
    found = find_bitext(tmp_path)
    assert {label: bitext.languages for label, bitext in found.items()} == {
        "de": ("de", "en"),
        "zh_Hant": ("zh_Hant", "en"),
    }
    assert found["de"].read() == (["devtest de"], ["devtest en"])
    for language in ("en", "de", "zh_Hant"):
        (tmp_path / f"devtest.{language}.txt").unlink()
    assert found.keys() == find_bitext(tmp_path).keys()
    write(tmp_path / "test.en.txt", "x")
    write(tmp_path / "more.en.txt", "x")
    write(tmp_path / "more.de.txt", "y")
    assert list(find_bitext(tmp_path)) == ["de.more"]


VECTORS = {
    "eins": [1, 0, 0], "one": [1, 0, 0],
    "zwei": [1, 0.2, 0], "two": [0, 1, 0],  # nearer to "one", by much
    "drei": [0.6, 0, 0.5], "three": [0, 0, 1],  # nearer to "one", by little
}  # fmt: skip


def encode(texts: list[str]) -> np.ndarray:
    return np.array([VECTORS[text] for text in texts], dtype=np.float32)


def test_worst_errors_come_first_without_correct_pairs(tmp_path: Path) -> None:
    write(tmp_path / "tatoeba.deu-eng.deu", "eins", "zwei", "drei")
    write(tmp_path / "tatoeba.deu-eng.eng", "one", "two", "three")
    found = find_bitext(tmp_path)
    failures = worst_failures(encode, found, 5)
    assert [(one.text, one.translation, one.nearer) for one in failures] == [
        ("zwei", "two", "one"),
        ("drei", "three", "one"),
    ]
    assert failures[0].cosine < failures[0].nearer_cosine
    assert worst_failures(encode, found, 1) == failures[:1]


def test_a_table_cuts_long_sentences_and_keeps_its_columns(tmp_path: Path) -> None:
    write(tmp_path / "tatoeba.deu-eng.deu", "a|b", "c" * 200)
    write(tmp_path / "tatoeba.deu-eng.eng", "x", "y")
    vectors = {"a|b": [1, 0], "x": [0, 1], "c" * 200: [1, 0.1], "y": [1, 0]}
    failures = worst_failures(lambda texts: np.array([vectors[t] for t in texts], np.float32), find_bitext(tmp_path), 2)
    rows = failures_markdown(failures).splitlines()
    assert "a\\|b" in rows[2]
    assert all(len(cell) <= LONGEST_CELL + 3 for row in rows for cell in row.split(" | "))
