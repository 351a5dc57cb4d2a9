from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from export.checkpoint import TrainingRecord
from export.parity import parity_texts
from service.model.artifact import load_manifest, load_parity
from service.model.encoder import load_encoder
from tests.export.checkpoints import PARITY_TEXTS


def test_token_ids_are_those_that_the_service_reads(unigram_artifact: Path) -> None:
    manifest = load_manifest(unigram_artifact)
    parity = load_parity(unigram_artifact, manifest)
    assert parity.texts[0] == "hhhhh"
    of_tokenizers = Tokenizer.from_file(str(unigram_artifact / "tokenizer.json")).encode("hhhhh").ids
    assert list(parity.input_ids[0]) != of_tokenizers  # else this vocabulary tests nothing
    encoder = load_encoder(unigram_artifact)  # refuses other ids
    assert np.array(parity.embeddings[0]) @ encoder.encode("hhhhh").vector == pytest.approx(1, abs=1e-5)


def test_parity_texts_cover_every_language_and_the_cut(student_artifact: Path) -> None:
    parity = load_parity(student_artifact, load_manifest(student_artifact))
    assert {text for texts in PARITY_TEXTS.values() for text in texts} < set(parity.texts)
    assert max(len(ids) for ids in parity.input_ids) == 32


def test_a_record_without_texts_gets_texts_in_its_languages() -> None:
    texts = parity_texts(TrainingRecord(name="x", languages=("de", "tr"), max_length=8))
    assert "Ein Mann spielt Gitarre." in texts
    assert "Bir adam gitar çalıyor." in texts
    assert "A man is playing a guitar." not in texts


def test_languages_without_built_in_texts_are_checked_in_english() -> None:
    assert parity_texts(TrainingRecord(name="x", languages=("sw",), max_length=8))[0] == "A man is playing a guitar."
