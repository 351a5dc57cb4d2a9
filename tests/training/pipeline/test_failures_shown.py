from pathlib import Path

import numpy as np

from tests.training.evaluation.test_sts import write_lines
from training.evaluation.bitext import LONGEST_SHOWN, failures_markdown, find_bitext, worst_failures

VECTORS = {
    "eins": [1, 0, 0], "one": [1, 0, 0],
    "zwei": [1, 0.2, 0], "two": [0, 1, 0],  # nearer to "one", by much
    "drei": [0.6, 0, 0.5], "three": [0, 0, 1],  # nearer to "one", by little
}  # fmt: skip


def encode(texts: list[str]) -> np.ndarray:
    return np.array([VECTORS[text] for text in texts], dtype=np.float32)


def test_worst_errors_come_first_without_correct_pairs(tmp_path: Path) -> None:
    write_lines(tmp_path / "tatoeba.deu-eng.deu", ["eins", "zwei", "drei"])
    write_lines(tmp_path / "tatoeba.deu-eng.eng", ["one", "two", "three"])
    found = find_bitext(tmp_path)
    failures = worst_failures(encode, found, 5)
    assert [(one.text, one.translation, one.found) for one in failures] == [
        ("zwei", "two", "one"),
        ("drei", "three", "one"),
    ]
    assert failures[0].cosine < failures[0].found_cosine
    assert worst_failures(encode, found, 1) == failures[:1]


def test_a_table_cuts_long_sentences_and_keeps_its_columns(tmp_path: Path) -> None:
    write_lines(tmp_path / "tatoeba.deu-eng.deu", ["a|b", "c" * 200])
    write_lines(tmp_path / "tatoeba.deu-eng.eng", ["x", "y"])
    vectors = {"a|b": [1, 0], "x": [0, 1], "c" * 200: [1, 0.1], "y": [1, 0]}
    failures = worst_failures(lambda texts: np.array([vectors[t] for t in texts], np.float32), find_bitext(tmp_path), 2)
    rows = failures_markdown(failures).splitlines()
    assert "a\\|b" in rows[2]
    assert all(len(cell) <= LONGEST_SHOWN + 3 for row in rows for cell in row.split(" | "))
