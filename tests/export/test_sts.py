from pathlib import Path

import pytest

from export.errors import BadRequest
from export.sts import read_sts


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


def test_a_score_that_is_no_number_is_named_and_a_line_ends_at_a_line_feed_only(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("5.0\ta\u2028b\tc\r\nnan\td\te\n", encoding="utf-8", newline="")
    with pytest.raises(BadRequest, match=r"pairs.tsv:2 has the score nan, which is no number"):
        read_sts(path)
    path.write_text("5.0\ta\u2028b\tc\r\n1.0\td\te\n", encoding="utf-8", newline="")
    assert read_sts(path) == ((5.0, "a\u2028b", "c"), (1.0, "d", "e"))


def test_scores_that_cannot_be_ranked_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("5.0\ta\tb\n5.0\tc\td\n", encoding="utf-8")
    with pytest.raises(BadRequest, match="2 pairs without two different scores"):
        read_sts(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"nowhere.tsv cannot be read"):
        read_sts(tmp_path / "nowhere.tsv")
