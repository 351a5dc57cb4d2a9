import gzip
import json
from pathlib import Path

import pytest

from tests.training.files import write
from training.corpora.cleaning.keys import matching_words
from training.corpora.cleaning.leakage import SHIPPED, EvaluationSentences, check_no_leakage
from training.errors import LeakageError

LONG = "The quick brown fox jumps over the lazy dog"


def test_a_reordered_sentence_is_near_unless_short_or_changed() -> None:
    evaluation = EvaluationSentences([LONG, "five words are too few"])
    assert evaluation.has_near(matching_words("Over the lazy dog, the quick brown fox jumps!"))
    assert "over the lazy dog the quick brown fox jumps" in evaluation
    assert not evaluation.has_near(matching_words("Over the lazy dog the quick brown cat jumps"))
    assert not evaluation.has_near(matching_words("too few are five words"))
    assert not evaluation.has_exact(matching_words("jumps " + LONG))


def test_scores_and_numbers_are_not_sentences() -> None:
    assert len(EvaluationSentences(["4.25", "1985", "", "?!", "a"])) == 1


def test_the_final_check_sees_a_leak_and_counts_what_is_clean() -> None:
    evaluation = EvaluationSentences(["Thanks", "Ich schlafe", LONG])
    assert check_no_leakage(["Hi", "Hallo"], evaluation) == 2
    for leak in ["thanks!", "ICH SCHLAFE", "dog the lazy over jumps fox brown quick the"]:
        with pytest.raises(LeakageError, match="training text 3 is an evaluation sentence"):
            check_no_leakage(["Hi", "Hallo", leak], evaluation)


def test_evaluation_sentences_behind_a_link_are_found(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/test.tsv", "5\tThanks\tDanke")
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval/stsb").symlink_to(tmp_path / "elsewhere")
    assert "thanks!" in EvaluationSentences.from_folder(tmp_path / "eval")


def test_every_layout_of_the_evaluation_sets_is_read(tmp_path: Path) -> None:
    write(tmp_path / "STS.input.track4.txt", "A cat sits\tUn gato")
    write(tmp_path / "queries.tsv.gz", "q1\tWho was first")
    write(tmp_path / "corpus.jsonl", json.dumps({"_id": "d1", "title": "Moon", "text": ["Luna", {"also": "Mond"}]}))
    write(tmp_path / "README.md", "Not a sentence of any set")
    evaluation = EvaluationSentences.from_folder(tmp_path)
    assert all(text in evaluation for text in ["A cat sits.", "un gato", "who was first?", "MOON", "luna", "mond"])
    assert "not a sentence of any set" not in evaluation


def test_the_sets_that_ship_with_this_project_are_barred_too(tmp_path: Path) -> None:
    write(tmp_path / "b.tsv", "A cat sits\tUn gato")
    query = json.loads((SHIPPED[1] / "search" / "queries.jsonl").read_text(encoding="utf-8").splitlines()[0])["text"]
    probe = SHIPPED[0].read_text(encoding="utf-8").splitlines()[1].split("\t")
    for evaluation in (EvaluationSentences.from_folder(tmp_path), EvaluationSentences.shipped()):
        assert query.upper() in evaluation
        assert all(sentence in evaluation for sentence in probe)
    assert "A cat sits" not in EvaluationSentences.shipped()


@pytest.mark.parametrize("name", ["a.csv", "a.json.gz", "sub.csv/a.XML"])
def test_a_layout_that_is_not_read_may_hide_a_leak(tmp_path: Path, name: str) -> None:
    write(tmp_path / "b.tsv", "A cat sits\tUn gato")
    write(tmp_path / name, '"A dog","Un perro",5')
    with pytest.raises(LeakageError, match="has an unknown layout"):
        EvaluationSentences.from_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.tsv", b"T\xc3\xbcr\nT\xfcr\n", "line 2 is not valid UTF-8"),
        ("a.tsv", "Tür".encode("utf-16"), "is UTF-16 by its byte-order mark; save it as UTF-8"),
        ("a.tsv.gz", b"no gzip", "cannot be read to its end: Not a gzipped file .*"),
        ("a.jsonl", b"[]\n{", "line 2 is not JSON .*"),
        ("b.gz", gzip.compress(b"x")[:9], "cannot be read to its end: .*"),
    ],
)
def test_a_file_that_cannot_be_read_may_hide_a_leak(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LeakageError, match=f"{name} {complaint}, so leakage cannot be ruled out"):
        EvaluationSentences.from_folder(tmp_path)
