import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.parallel_text import write_data_folder
from tests.training.files import write
from training.config.run import load_config
from training.corpora.catalog import load_catalog
from training.corpora.corpus import Corpus
from training.corpora.mix import build_corpus
from training.passages.questions import Questions
from training.pipeline.summary import (
    CALIBRATION_TEXTS,
    asked_texts,
    calibration_texts,
    data_sources,
    pairs_seen,
    parity_texts,
    sts_gate,
    training_commit,
    weaknesses,
)

CONFIGS = Path(__file__).parents[3] / "training/configs"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_folder(tmp_path_factory.mktemp("data"), pairs_per_language=50)


@pytest.fixture(scope="module")
def corpus(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    out = tmp_path_factory.mktemp("corpus")
    config = load_config(CONFIGS / "smoke.yaml")
    build_corpus(config.corpus, config.languages, data, out, seed=1)
    return Corpus.load(out)


def test_every_source_of_the_default_configuration_has_a_licence() -> None:
    sources = yaml.safe_load((CONFIGS / "default.yaml").read_text(encoding="utf-8"))["corpus"]["sources"]
    assert sources.keys() <= load_catalog().keys()


def test_data_sources_are_those_before_then_by_size() -> None:
    title = load_catalog()["tico19"].title
    found = data_sources({"sentences": 100, "tico19": 200, "korsts": 0}, [{"source": "before"}])
    assert [(row["source"], row.get("pairs")) for row in found] == [("before", None), (title, 200), ("sentences", 100)]
    assert data_sources({"tico19": 200}, [{"source": title}]) == [{"source": title}]


def test_calibration_texts_are_of_every_language_and_english(corpus: Corpus) -> None:
    texts = calibration_texts(corpus)
    assert len(texts) == len(set(texts))
    english = {corpus.texts[index] for index in corpus.english}
    assert english & set(texts)
    for code in range(len(corpus.languages)):
        pairs = np.flatnonzero(corpus.language_code == code)
        assert {corpus.texts[corpus.other[index]] for index in pairs} & set(texts)


def test_calibration_has_questions_and_passages_of_each_language() -> None:
    texts = [f"text {number}" for number in range(1000)]
    asked, passages = np.arange(500, dtype=np.int32), np.arange(500, 1000, dtype=np.int32)
    language, held_out = np.arange(500) % 2, np.arange(500) % 10 == 0
    chosen = asked_texts(Questions(texts, ["ar", "de"], asked, passages, language, held_out, {}))
    assert len(chosen) == len(set(chosen)) == 2 * 2 * CALIBRATION_TEXTS
    taken = {int(text.split()[1]) % 500 for text in chosen}
    assert not held_out[list(taken)].any()
    assert {0, 1} == set(language[list(taken)])


def test_there_are_parity_texts_in_every_language(corpus: Corpus) -> None:
    texts = parity_texts(corpus)
    assert {language: len(found) for language, found in texts.items()} == {"en": 2, "de": 2, "es": 2}


def test_the_gate_takes_english_and_cross_lingual_rows(data: Path) -> None:
    rows = sts_gate(data, ["de", "es", "fr"])
    assert len(rows) == 3 * 148  # no file for en-fr
    assert all(0 <= score <= 5 for score, _, _ in rows)


def test_the_rows_of_the_gate_may_be_gzipped(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "eval/stsb/dev"
    folder.mkdir(parents=True)
    for path in (data / "eval/stsb/dev").iterdir():
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert sts_gate(tmp_path, ["de", "es", "fr"]) == sts_gate(data, ["de", "es", "fr"])


def test_the_gate_is_spread_over_a_file(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first rows are all captions."""
    every = sts_gate(data, [])
    monkeypatch.setattr("training.pipeline.summary.GATE_ROWS", 3)
    assert sts_gate(data, []) == [every[0], every[len(every) // 2], every[-1]]


def test_weaknesses_name_worst_pairs_and_losses() -> None:
    start = {"stsb_test": {"en-ar": 30.0, "en-de": 50.0, "en-fr": 51.0, "en-hi": 20.0, "average": 37.8}}
    scores = {"stsb_test": {"en-ar": 29.0, "en-de": 60.0, "en-fr": 61.0, "en-hi": 25.0, "average": 43.8}}
    worst, below = weaknesses(scores, start)
    assert worst.startswith(
        "Weakest on the STS benchmark's test set, before export: en-hi 25.0, en-ar 29.0, en-de 60.0;"
    )
    assert worst.endswith("; the mean is 43.8.")
    assert below == "Below its untrained start on stsb_test: en-ar."
    assert weaknesses(scores, None) == [worst]


def test_pairs_and_commit_are_the_stages_own(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", '{"step": 25, "pairs": 800}', '{"step": 30, "pairs": 960}')
    write(tmp_path / "done.json", json.dumps({"git_commit": "abc"}))
    assert (pairs_seen(tmp_path), training_commit(tmp_path)) == (960, "abc")
