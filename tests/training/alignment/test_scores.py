import unicodedata

import numpy as np
import pytest

from service.model.artifact import load_manifest
from tests.skeleton.project import ROOT
from training.alignment.pairs import LanguageCheck
from training.alignment.scores import (
    Guard,
    embed_probe,
    hits_of,
    is_gain,
    lost_points,
    probe_scores,
    read_probe,
    search_scores,
)
from training.evaluation.search import bundled_search


def test_probe_has_forty_sentences_in_each_bundled_language() -> None:
    probe = read_probe()
    assert set(probe) == set(load_manifest(ROOT / "models" / "default").languages)
    for language, sentences in probe.items():
        assert len(set(sentences)) == len(sentences) == 40, language
        assert all(text == unicodedata.normalize("NFC", text).strip() for text in sentences), language


def test_every_column_of_the_probe_is_in_its_language() -> None:
    for language, sentences in read_probe().items():
        check = LanguageCheck(language)
        assert [text for text in sentences if check.is_wrong(text)] == [], language


def test_scores_of_a_hand_computed_case() -> None:
    rows = np.eye(4, dtype=np.float32)
    vectors = {"en": rows, "de": rows[[0, 1, 2, 2]], "fr": rows}
    # de's fourth sentence is the third's twin: it finds the third of the others, and their fourth finds nothing better
    # than the first of equals. en-fr is whole.
    scores = probe_scores(vectors)
    assert scores == {"en": 87.5, "de": 75.0, "fr": 87.5}
    assert probe_scores({"en": rows}) == {}


def test_a_loss_is_more_than_half_a_point() -> None:
    before = {"en": 90.0, "de": 80.0, "fr": 70.0}
    assert lost_points(before, {"en": 89.5, "de": 79.4, "fr": 75.0}) == {"de": 0.6}


@pytest.mark.parametrize(("languages", "expected"), [(["de", "zh_Hant", "sw"], {"de", "zh"}), (["sw"], set())])
def test_only_languages_of_the_model_are_probed(languages: list[str], expected: set[str]) -> None:
    found = embed_probe(lambda texts: np.array([[len(text), 1.0] for text in texts], np.float32), languages)
    assert set(found) == expected
    for language, vectors in found.items():
        assert vectors[:, 0].tolist() == [len(text) for text in read_probe()[language]]


def test_search_is_scored_by_the_rank_of_the_answer() -> None:
    found = bundled_search()
    row_of = {text: row for row, text in enumerate(found.documents)}
    answer_of = {query.text: query.document for query in found.queries if query.document is not None}

    def encode(texts: list[str]) -> np.ndarray:
        """Each query is at its answer; those in German are nearer to the document before it."""
        vectors = np.zeros((len(texts), len(row_of)), np.float32)
        for place, text in enumerate(texts):
            vectors[place, row_of.get(text, answer_of.get(text) or 0)] = 1
            if text in german:
                vectors[place, (answer_of[text] or 0) - 1] = 2
        return vectors

    german: set[str] = set()
    assert search_scores(encode, None) == {"search": 100}
    german = {query.text for query in found.queries if query.language == "de" and query.document is not None}
    assert search_scores(encode, ["de"]) == {"search": 50}
    assert 50 < search_scores(encode, None)["search"] < 100
    assert search_scores(encode, ["sw"]) == {}


def test_everything_that_must_stay_is_guarded() -> None:
    before = Guard({"de": 90.0}, {"de-en": 70.0, "en-en": 80.0}, {"search": 60.0})
    assert before.lost(before) == {}
    after = Guard({"de": 89.0}, {"de-en": 69.0, "en-en": 79.8}, {"search": 58.9})
    assert before.lost(after) == {"de": 1.0, "similarity": 0.6, "search": 1.1}
    assert before.lost(after, max_search_loss=2) == {"de": 1.0, "similarity": 0.6}
    assert before.lost(Guard({"de": 90.0}, {"de-en": 69.2, "en-en": 80.0}, {"search": 61.0})) == {}


def test_a_gain_is_more_than_chance() -> None:
    before = np.zeros(100, bool)
    few, many = before.copy(), before.copy()
    few[:2], many[:10] = True, True
    assert [is_gain(before, after) for after in (before, few, many)] == [False, False, True]
    rows = np.eye(3, dtype=np.float32)
    assert hits_of((rows, rows[[0, 2, 1]])).tolist() == [True, False, False] * 2
    assert hits_of((rows, rows)).all()
