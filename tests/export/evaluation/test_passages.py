"""Questions and documents, whole and split: metrics against hand-computed ranks, and the command's kinds."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from export.evaluation.__main__ import main
from export.evaluation.passages import best_passage_scorer, evaluate_passages, halves
from export.evaluation.scoring import EVERY_KIND, Choice, evaluate_folder
from tests.training.files import write
from tests.training.reranking.small import collection_in
from training.evaluation.vectors import Encode
from training.reranking.collection import Collection, Question
from training.reranking.scorers import BiEncoderScorer

LANGUAGES = ["de", "en"]
SMALL = Collection(
    (Question({"en": "east", "de": "ost"}, (0,)), Question({"en": "north-east", "de": "nordost"}, (1,))),
    ({"en": "north|east", "de": "nord|ost"}, {"en": "hill", "de": "berg"}),
)
VECTORS = {
    **dict.fromkeys(("east", "ost"), (1, 0)),
    **dict.fromkeys(("north", "nord"), (0, 1)),
    **dict.fromkeys(("north-east", "nordost", "north|east", "nord|ost"), (0.6, 0.8)),
    "hill": (0.8, 0.6),  # whole: nearer to east than north|east is
    "berg": (0.28, 0.96),  # whole: less near
}
ALL_FIRST = {"de": 100, "en": 100, "average": 100}


def encode(texts: list[str]) -> np.ndarray:
    return np.array([VECTORS[text] for text in texts], dtype=np.float32)


def split(text: str) -> tuple[tuple[int, int], ...]:
    stops = [place for place, letter in enumerate(text) if letter == "|"]
    return tuple(zip([0, *(stop + 1 for stop in stops)], [*stops, len(text)], strict=True)) if stops else ()


def write_collection(folder: Path, collection: Collection, languages: list[str]) -> None:
    for language in languages:
        questions = [f"q{i}\tp{q.positives[0]}\t{q.texts[language]}" for i, q in enumerate(collection.questions)]
        write(folder / f"queries.{language}.tsv", *questions)
        passages = [f"p{i}\t{passage[language]}" for i, passage in enumerate(collection.passages)]
        write(folder / f"passages.{language}.tsv", *passages)


def test_a_split_document_ranks_by_its_best_passage() -> None:
    scorers = {"whole": BiEncoderScorer(encode, encode), "split": best_passage_scorer(encode, encode, split)}
    scores = evaluate_passages(scorers, SMALL, LANGUAGES)
    assert scores == {
        "monolingual_whole": {"de": 50, "en": 0, "average": 25},
        "monolingual_split": ALL_FIRST,
        "crosslingual_whole": {"en-de": 50, "de-en": 0, "average": 25},
        "crosslingual_split": {"en-de": 100, "de-en": 100, "average": 100},
        "mixed_whole": {"mixed": 50},  # the seed deals hill: ranks 2 and 2; berg would give 1 and 2
        "mixed_split": {"mixed": 100},
    }


def test_even_places_are_dev_and_odd_places_test() -> None:
    collection = collection_in(["en"], questions=5, passages=3)
    names = {
        part: [question.texts["en"] for question in half.questions]
        for part, half in halves(Path("xquad"), collection).items()
    }
    assert names == {"_test": ["en q1", "en q3"], "_dev": ["en q0", "en q2", "en q4"]}
    assert halves(Path("bipar/test"), collection) == {"": collection}


def test_no_text_is_encoded_twice_and_draws_are_repeatable(tmp_path: Path) -> None:
    encoded: Counter[str] = Counter()

    def count(texts: list[str]) -> np.ndarray:
        encoded.update(texts)
        return encode(texts)

    write_collection(tmp_path / "test", SMALL, LANGUAGES)
    scores = evaluate_folder(count, tmp_path, Choice(("passages", "rerank")), split=split)
    assert encoded.keys() == VECTORS.keys()
    assert set(encoded.values()) == {1}
    assert scores["test_passages_mixed_whole"] == {"mixed": 50}
    assert scores["test_mrr"]["mixed"] == 50


def test_languages_and_queries_limit_a_collection(tmp_path: Path) -> None:
    asked: list[str] = []

    def remember(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return np.ones((len(texts), 1), np.float32)

    write_collection(tmp_path / "set", collection_in(["de", "en", "fr"], 8, 2), ["de", "en", "fr"])
    scores = evaluate_folder(remember, tmp_path, Choice(("passages",), ("de",), queries=1), query=remember)
    assert scores["set_passages_test_monolingual_whole"].keys() == {"de", "en", "average"}
    assert {text for text in asked if "q" in text} <= {"de q1", "en q1", "de q0", "en q0"}
    assert not any("split" in metric for metric in scores)


def test_the_command_splits_documents_as_the_service_does(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tiny model reads 24 tokens: of a longer document only its passages tell how it ends."""
    long = "A man is playing a guitar. " * 6 + "The stock market fell sharply today."
    questions = [Question({"en": text}, (0,)) for text in ("market fell sharply today.", "The stock market fell")]
    documents = ({"en": long}, {"en": "Ein Mann spielt Gitarre heute. The man today."})
    write_collection(tmp_path / "qa", Collection(tuple(questions), documents), ["en"])
    arguments = [str(tiny_model), "--data", str(tmp_path), "--sets", "passages"]
    assert main(arguments) == 0
    scores = json.loads(capsys.readouterr().out)
    parts = {name: scores[f"qa_passages_{name}"]["en"] for name in ("test_monolingual_whole", "dev_monolingual_split")}
    assert parts == {"test_monolingual_whole": 0, "dev_monolingual_split": 100}
    assert main([*arguments, "--markdown"]) == 0
    table = capsys.readouterr().out
    assert "| qa_passages_test_monolingual_split | 100.00 |" in table
    assert "dev" not in table


def test_all_kinds_are_scored_and_the_rest_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    letters: Encode = lambda texts: np.array([[text.count(letter) + 1 for letter in "aeiou"] for text in texts], "f")  # noqa: E731
    write_collection(tmp_path / "test", SMALL, LANGUAGES)
    caplog.set_level("INFO", logger="export")
    scores = evaluate_folder(letters, tmp_path, Choice(EVERY_KIND))
    assert {"test_passages_mixed_whole", "test_mrr", "search_top1"} <= scores.keys()  # search: the bundled set
    assert f"skipped sts, paraphrase, bitext, mining, retrieval, typing: {tmp_path} has no such set" in caplog.messages
    assert any("documents are scored whole only" in message for message in caplog.messages)


def test_all_of_a_reranker_is_rerank(
    tiny_reranker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    write_collection(tmp_path / "test", SMALL, LANGUAGES)
    assert main([str(tiny_reranker), "--data", str(tmp_path), "--sets", "all"]) == 0
    assert json.loads(capsys.readouterr().out).keys() >= {"test_mrr", "test_mrr_bm25"}
    assert "skipped all but rerank: a cross-encoder has no embeddings" in caplog.messages
    assert main([str(tiny_reranker), "--data", str(tmp_path), "--dimensions", "8"]) == 2
    assert "--dimensions cuts vectors; a re-ranker has none" in capsys.readouterr().err
