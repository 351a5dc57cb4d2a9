import gzip
from pathlib import Path

import pytest

from benchmarks.serving.texts import MIXED_TOKENS, SHORT_TOKENS, TEXTS, choose_texts


def words(text: str) -> int:
    return len(text.split())


def test_texts_have_the_wanted_lengths_and_are_distinct() -> None:
    chosen = choose_texts(None, words)
    for sample, (shortest, longest) in ((chosen.short, SHORT_TOKENS), (chosen.mixed, MIXED_TOKENS)):
        assert sample.texts
        assert len(set(sample.texts)) == len(sample.texts) <= TEXTS
        assert all(shortest <= words(text) <= longest for text in sample.texts)


def test_mixed_texts_are_short_and_long() -> None:
    lengths = sorted(words(text) for text in choose_texts(None, words).mixed.texts)
    assert lengths[0] < 20
    assert lengths[-1] > 80


def test_texts_are_the_same_in_every_run() -> None:
    assert choose_texts(None, words) == choose_texts(None, words)


def test_texts_come_from_every_source_and_language(tmp_path: Path) -> None:
    for source in ("one", "two"):
        for language in ("de", "tr"):
            folder = tmp_path / "parallel" / source
            folder.mkdir(parents=True, exist_ok=True)
            lines = [f"{source} en {number} a b c d e\t{source} {language} {number} a b c d e" for number in range(40)]
            (folder / f"en-{language}.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    starts = {tuple(text.split()[:2]) for text in choose_texts(tmp_path, words).short.texts}
    assert starts == {(source, language) for source in ("one", "two") for language in ("en", "de", "tr")}


def test_a_data_folder_without_parallel_text_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"parallel has no pairs .*docs/guide/corpora\.md"):
        choose_texts(tmp_path, words)
