from collections.abc import Callable
from pathlib import Path

import pytest

from export.errors import BadRequest
from export.inputs import read_sts, read_texts


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("5.0\tA cat.\tEine Katze.\n0.2\tA cat.\tZüge\n", encoding="utf-8")
    assert read_sts(path) == ((5.0, "A cat.", "Eine Katze."), (0.2, "A cat.", "Züge"))


@pytest.mark.parametrize("line", ["5.0\tonly one", "high\ta\tb", "5.0\ta\tb\tc"])
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"5.0\ta\tb\n{line}\n", encoding="utf-8")
    with pytest.raises(BadRequest, match=r"pairs.tsv:2 is not score<TAB>sentence<TAB>sentence"):
        read_sts(path)


def test_score_that_is_no_number_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("5.0\ta\u2028b\tc\r\nnan\td\te\n", encoding="utf-8", newline="")
    with pytest.raises(BadRequest, match=r"pairs.tsv:2 has the score nan, which is not a finite number"):
        read_sts(path)
    path.write_text("5.0\ta\u2028b\tc\r\n1.0\td\te\n", encoding="utf-8", newline="")
    assert read_sts(path) == ((5.0, "a\u2028b", "c"), (1.0, "d", "e"))


def test_scores_that_cannot_be_ranked_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("5.0\ta\tb\n5.0\tc\td\n", encoding="utf-8")
    with pytest.raises(BadRequest, match="2 pairs without two different scores"):
        read_sts(path)


@pytest.mark.parametrize("read", [read_sts, read_texts])
def test_what_is_not_utf8_is_named_by_its_line(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"5.0\ta\tb\n1.0\tT\xfcr\td\n")
    with pytest.raises(BadRequest, match=r"pairs.tsv line 2 is not valid UTF-8"):
        read(path)
    path.write_text("5.0\ta\tb\n", encoding="utf-16")
    with pytest.raises(BadRequest, match=r"pairs.tsv is UTF-16 by its byte-order mark; save it as UTF-8"):
        read(path)


def test_a_calibration_text_ends_at_a_line_feed_only(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes("one\u2028text\r\n\nanother\x0ctext".encode())
    assert read_texts(tmp_path / "texts.txt") == ("one\u2028text", "another\x0ctext")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"nowhere.tsv cannot be read"):
        read_sts(tmp_path / "nowhere.tsv")
