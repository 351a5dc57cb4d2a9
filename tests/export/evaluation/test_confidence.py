"""Confidence is fitted as searches are served, kept in the manifest, and measured by hand-made cases."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from export.describe import describe
from export.evaluation import confidence_corpora
from export.evaluation.__main__ import main
from export.evaluation.confidence import PairReader, Searches, ask, calibrate, fit
from export.evaluation.confidence_corpora import (
    BITEXT_STEP,
    Asked,
    Corpus,
    crowded,
    measured_on,
    read_distractors,
    with_few,
)
from export.evaluation.models import load_model
from service.documents.document import Document
from service.model.artifact import load_manifest
from service.model.confidence import calibration_error
from service.model.reranker import Reranker
from tests.artifacts import build_artifact
from training.corpora.leakage import is_held_out
from training.errors import EvaluationError

WORDS = ["so", "fa", "mi", "re", "do", "la"]


def passages(count: int) -> list[str]:
    """Texts that no model has been trained on."""
    texts = (" ".join(WORDS[number // 6**place % 6] for place in range(6)) for number in range(6**6))
    return [text for text, _ in zip(filter(is_held_out, texts), range(count), strict=False)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A question set whose questions have words of their passages."""
    folder = tmp_path / "data" / "qa"
    folder.mkdir(parents=True)
    with gzip.open(folder / "arcd.jsonl.gz", "wt", encoding="utf-8") as file:
        for text in passages(30):
            file.write(json.dumps({"query": text[:8], "positive": text, "qlang": "en", "plang": "en"}) + "\n")
    return folder.parent


def test_calibration_is_kept_and_nothing_else_changes(
    tmp_path: Path, data: Path, tiny_reranker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_set = confidence_corpora._search_set
    artifact, scores, notes = tmp_path / "tiny", tmp_path / "scores.json", tmp_path / "notes.md"
    before = build_artifact(artifact)
    notes.write_text("Made on Mars.", encoding="utf-8")

    def describe_and_read(*, is_dev: bool) -> Corpus:
        describe(artifact, served=None, notes=notes)  # an edit while this runs
        return search_set(is_dev=is_dev).spaced(60)

    monkeypatch.setattr(confidence_corpora, "_search_set", describe_and_read)
    (data / "eval" / "tatoeba").mkdir(parents=True)  # no file in the model's languages
    reranked = ["--reranker", str(tiny_reranker), "--queries", "40"]
    assert main([str(artifact), "--data", str(data), "--calibrate", *reranked, "--out", str(scores)]) == 0
    after = load_manifest(artifact)
    assert after.fingerprint == before.fingerprint
    assert after.training["notes"] == "Made on Mars."
    assert after.confidence is not None
    assert len(json.dumps(json.loads((artifact / "manifest.json").read_text("utf-8"))["confidence"])) < 20_000
    measured = json.loads(scores.read_text("utf-8"))
    modes = {"confidence_hybrid_auc_30", "confidence_dense_error_30", "confidence_reranked_right_10"}
    assert modes <= measured.keys()
    assert 0 <= measured["confidence_hybrid_error_30"]["search_test"] <= 100


def test_limits_that_a_model_never_reaches_are_left_out(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cosine of the model is above 0.83."""
    search_set = confidence_corpora._search_set
    monkeypatch.setattr(confidence_corpora, "_search_set", lambda is_dev: search_set(is_dev=is_dev).spaced(60))
    build_artifact(tmp_path / "tiny")
    tiny = load_model(str(tmp_path / "tiny"))

    def encode(texts: list[str]) -> np.ndarray:
        vectors_ND = tiny.encode(texts)
        return np.hstack([vectors_ND, np.full((len(texts), 1), 3.3)]).astype(np.float32)

    narrow = replace(tiny, encode_query=encode, encode_document=encode)
    confidence, scores, _ = calibrate(narrow, data)
    assert confidence.different in {0.85, 0.9}
    assert "search_test" in scores["confidence_hybrid_auc_30"]


def test_searches_that_are_all_wrong_are_one_sentence() -> None:
    no_Q = np.zeros(3, bool)
    found = Searches(Corpus("tiny", [], []), "hybrid", np.ones(3), {0.9: np.ones((3, 9))}, no_Q, no_Q)
    with pytest.raises(EvaluationError, match="no confidence fits hybrid searches: all are right, all wrong"):
        fit([found])


def test_a_reranker_moves_the_first_result(tmp_path: Path, tiny_reranker: Path) -> None:
    build_artifact(tmp_path)
    texts = ["so so so", "so so fa", "mi re"]
    documents = [Document(text, text, {"topic": text}) for text in texts]
    corpus = Corpus("tiny", documents, [Asked("so so so", frozenset({"so so fa"}))])
    liked = {("so so so", text): 9.0 * (text == "so so fa") for text in texts}
    reader = PairReader(Reranker.load(tiny_reranker), 1, liked)
    found = {searches.mode: searches for searches in ask(load_model(str(tmp_path)), [corpus], reader)}
    assert found["reranked"].is_right_Q.tolist() == [True, False]
    assert found["hybrid"].is_right_Q.tolist() == [False, False]


def test_distractors_lie_beside_every_corpus(tmp_path: Path) -> None:
    (tmp_path / "mono" / "talk").mkdir(parents=True)
    (tmp_path / "mono" / "talk" / "en.txt").write_text("so re\nwho so?\nfa\nmi mi\nfa\n", encoding="utf-8")
    corpora = [
        Corpus(name, [Document("1", text, {"topic": "1"})], [Asked(text, frozenset({"1"}))])
        for name, text in (("a", "do do"), ("b", "la"))
    ]
    corpora += [replace(corpora[0], few=5), Corpus("c", corpora[0].documents, [], is_short=True)]
    large = [*crowded(corpora, read_distractors(tmp_path, 2))]
    assert [corpus.name for corpus in large] == ["a_large", "b_large", "c_large"]
    assert [document.text for document in large[0].documents] == ["so re", "mi mi", "do do", "la"]
    assert [document.text for document in large[2].documents] == ["so re", "mi mi", "do do"]  # apart
    assert large[1].questions == [Asked("la", frozenset({"b 1"}))]
    with pytest.raises(EvaluationError, match="has 3 sentences; --distractors asks for 4"):
        read_distractors(tmp_path, 4)


def test_short_documents_are_asked_for_by_their_translations(tmp_path: Path) -> None:
    folder = tmp_path / "eval" / "tatoeba"
    folder.mkdir(parents=True)
    sides = {"deu": ["eins", "zwei", "zwei"], "eng": ["one", "two", "a couple"]}
    for side, texts in sides.items():
        path = folder / f"tatoeba.deu-eng.{side}"
        path.write_text("\n".join(text for text in texts for _ in range(BITEXT_STEP)) + "\n", encoding="utf-8")
    found = next(corpus for corpus in measured_on(tmp_path, ["de"]) if corpus.name == "tatoeba")
    texts = [{document.text, asked.text} for document, asked in zip(found.documents, found.questions, strict=True)]
    assert texts == [{"eins", "one"}, {"zwei", "two"}]  # no text has two topics
    assert [asked.topics for asked in found.questions] == [{document.id} for document in found.documents]
    assert {corpus.name for corpus in with_few(measured_on(tmp_path, ["en"]))} == {"search_test", "search_test_few"}


@pytest.mark.parametrize(("model", "words"), [("models/none", "no folder"), ("", "has none of the question sets")])
def test_what_cannot_be_calibrated_is_named(
    tmp_path: Path, model: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not model:
        build_artifact(tmp_path / "tiny")
    assert main([model or str(tmp_path / "tiny"), "--data", str(tmp_path), "--calibrate"]) == 2
    assert words in capsys.readouterr().err


def test_an_answer_is_taken_out_with_its_translations(tmp_path: Path) -> None:
    build_artifact(tmp_path)
    texts = ["so so so", "so so fa", "mi re", "do la", "re re"]
    documents = [Document(str(n), text, {"topic": str(max(n, 1))}) for n, text in enumerate(texts)]
    corpus = Corpus("tiny", documents, [Asked("so so so", frozenset({"1"})), Asked("la", frozenset())])
    for found in ask(load_model(str(tmp_path)), [corpus]):
        assert found.is_answerable_Q.tolist() == [True, False, False]
        assert found.is_right_Q.tolist() == [True, False, False]
        assert found.weights(0.3) == pytest.approx([0.7, 0.15, 0.15])
        cosine_Q = found.feature_QF[0.9][:, 0]
        assert cosine_Q[0] == pytest.approx(1, abs=1e-5)
        assert cosine_Q[1] < cosine_Q[0]


def test_the_calibration_error_is_that_of_ten_bins() -> None:
    said = np.repeat(np.arange(10) / 10, 10)
    right = np.tile(np.arange(10) < 5, 10)
    expected = float(np.mean(np.abs(np.arange(10) / 10 - 0.5)))
    assert calibration_error(said, right, np.ones(100)) == pytest.approx(expected)
    assert calibration_error(np.full(100, 0.5), right, np.ones(100)) == pytest.approx(0)
