import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks.index_scale import drawn, sentences

LANGUAGES = ("de", "en", "fr")


def write(folder: Path, source: str, language: str, count: int) -> None:
    (folder / source).mkdir(exist_ok=True)
    with gzip.open(folder / source / f"en-{language}.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"en {number} of {source}\t{language} {number} of {source}\n" for number in range(count))


def kinds(texts: Iterable[str]) -> set[tuple[str, str]]:
    """Language and source."""
    return {(text.split()[0], text.split()[-1]) for text in texts}


def test_sentences_are_those_of_the_models_languages_alone(tmp_path: Path) -> None:
    for source, language in (("a", "ca"), ("a", "de"), ("b", "fr"), ("b", "zh")):
        write(tmp_path, source, language, 2)
    (tmp_path / "README.md").touch()
    assert kinds(sentences(tmp_path, LANGUAGES)) == {("de", "a"), ("en", "a"), ("fr", "b"), ("en", "b")}
    assert kinds(sentences(tmp_path, ("fr",))) == {("fr", "b")}


def test_queries_come_from_everywhere_and_none_is_a_document(tmp_path: Path) -> None:
    for source in ("a", "b", "c"):
        write(tmp_path, source, "de", 200)
        write(tmp_path, source, "fr", 200)  # whose English side is that of the German file
    found = sentences(tmp_path, LANGUAGES)
    texts = drawn(found, 1000)
    queries, documents = texts[:100], texts[100:]
    assert kinds(queries) == kinds(found) == kinds(documents)
    assert len(kinds(found)) == 9
    assert not set(queries) & set(documents)


def test_every_process_draws_the_same_sentences() -> None:
    found = {f"sentence {number}" for number in range(100)}  # whose order differs from process to process
    assert drawn(found, 3) == ["sentence 53", "sentence 97", "sentence 57"]


def test_too_few_sentences_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"2 sentences .* need 3"):
        drawn({"a", "b"}, 3)
