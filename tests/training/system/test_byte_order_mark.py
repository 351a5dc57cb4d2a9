"""A byte-order mark at the start of a file is no part of its first text."""

import gzip
from pathlib import Path

import pytest

from export.inputs import read_sts, read_texts
from training.corpora.sources.text_pairs import read_multiway_pairs, read_tsv_pairs
from training.evaluation.lines import read_lines

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz"])
def test_a_mark_is_no_part_of_the_first_text(tmp_path: Path, name: str) -> None:
    path, content = tmp_path / name, MARK + b"en\tde\n" + b"day\tTag\n"
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(read_tsv_pairs(path)) == [("en", "de"), ("day", "Tag")]
    assert list(read_multiway_pairs(path, "de")) == [("day", "Tag")]
    assert read_lines(path) == ["en\tde", "day\tTag"]


def test_a_mark_is_no_part_of_the_exporters_texts(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(MARK + b"1\ta\tb\n2\tc\td\n")
    assert read_texts(path)[0] == "1\ta\tb"
    assert len(read_sts(path)) == 2
