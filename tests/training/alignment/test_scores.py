import unicodedata

import numpy as np
import pytest

from service.model.artifact import load_manifest
from tests.skeleton.project import ROOT
from training.alignment.language import LanguageCheck
from training.alignment.scores import embed_probe, lost_points, probe_scores, read_probe


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
    assert probe_scores(vectors, lambda own: own * 0 + rows) == {"en": 100, "de": 100, "fr": 100}
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
