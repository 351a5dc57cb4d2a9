"""Text without a translation."""

import gzip
from pathlib import Path

import pytest

from training.corpora.mono import mono_texts
from training.errors import CorpusError


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_english_and_the_languages_asked_for_are_read_plain_or_gzip(tmp_path: Path) -> None:
    write(tmp_path / "mono/web/de.txt.gz", "Der Hund schläft.\n\n  Die Katze auch. \n".encode())
    write(tmp_path / "mono/web/en.txt", b"A dog sleeps.\n")
    write(tmp_path / "mono/web/fr.txt", b"Un chien dort.\n")
    found = list(mono_texts(tmp_path, ["web"], ["de", "ja"]))
    assert found == ["A dog sleeps.", "Der Hund schläft.", "Die Katze auch."]


def test_a_source_without_any_of_them_or_with_another_encoding_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "mono/web/de.txt", "groß\n".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"de\.txt line 1 is not valid UTF-8"):
        list(mono_texts(tmp_path, ["web"], ["de"]))
    with pytest.raises(CorpusError, match="source 'books' has no"):
        list(mono_texts(tmp_path, ["books"], ["de"]))
