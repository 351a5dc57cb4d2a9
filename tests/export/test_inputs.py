from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from export.errors import BadRequest
from export.inputs import MOST_CALIBRATION, read_sts, read_texts, some_of


def sts(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    pairs = read_sts(sts(tmp_path, "5.0\ta\u2028b\tZüge\r\n1.0\td\te\n"))
    assert pairs == ((5.0, "a\u2028b", "Züge"), (1.0, "d", "e"))
    (tmp_path / "texts.txt").write_bytes("one\u2028text\r\n\nanother\x0ctext".encode())
    assert read_texts(tmp_path / "texts.txt") == ("one\u2028text", "another\x0ctext")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("5.0\tonly one", "pairs.tsv:2 is not score<TAB>sentence<TAB>sentence"),
        ("high\ta\tb", "pairs.tsv:2 is not score<TAB>sentence<TAB>sentence"),
        ("5.0\ta\tb\tc", "pairs.tsv:2 is not score<TAB>sentence<TAB>sentence"),
        ("nan\td\te", "pairs.tsv:2 has the score nan, which is not a finite number"),
        ("5.0\tc\td", "2 pairs without two different scores"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        read_sts(sts(tmp_path, f"5.0\ta\tb\n{line}\n"))


@pytest.mark.parametrize("read", [read_sts, read_texts])
def test_what_is_not_utf8_is_named_by_its_line(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"5.0\ta\tb\n1.0\tT\xfcr\td\n")
    with pytest.raises(BadRequest, match=r"pairs.tsv line 2 is not valid UTF-8"):
        read(path)
    path.write_text("5.0\ta\tb\n", encoding="utf-16")
    with pytest.raises(BadRequest, match=r"pairs.tsv is UTF-16 by its byte-order mark; save it as UTF-8"):
        read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"nowhere.tsv cannot be read"):
        read_sts(tmp_path / "nowhere.tsv")


def test_calibration_takes_so_many_rows_from_all_of_a_file() -> None:
    rows = range(10 * MOST_CALIBRATION)
    some = some_of(rows)
    assert len(some) == MOST_CALIBRATION
    assert {later - row for row, later in pairwise(some)} <= {9, 10, 11}
    assert (some_of(rows[:3]), some_of([])) == ([0, 1, 2], [])
