import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.training.files import write
from training.config import RunConfig
from training.corpora.config import CorpusConfig, SourceConfig
from training.corpora.corpus import Corpus
from training.corpora.glosses import GlossSource
from training.corpora.mix import build_corpus
from training.corpora.plan import SamplingPlan
from training.errors import ConfigError
from training.parsing import build
from training.tokenizer import balanced_sentences

NOUNS = {"dog": "pes", "cat": "kočka", "horse": "kůň", "child": "dítě"}
VERBS = {"sleeps": "spí", "runs": "běží", "drinks": "pije"}
PAIRS = [
    (f"The {noun} {verb}{end}", f"{NOUNS[noun]} {VERBS[verb]}{end}")
    for noun, verb, end in product(NOUNS, VERBS, ["", ".", "!"])
]


def test_a_sentence_of_which_too_little_is_known_makes_no_gloss() -> None:
    source = GlossSource(["The dog runs.", "Zebras and lions never sleep.", "A"], ["cs"])
    assert list(source.pairs("cs", PAIRS)) == [("The dog runs.", "pes běží .")]
    assert list(source.pairs("de", PAIRS)) == []
    assert list(source.pairs("cs", [])) == []


CONFIG = CorpusConfig(
    sources={
        "made": SourceConfig(weight=3, glosses_of=["captions"]),
        "captions": SourceConfig(),
        "news": SourceConfig(),
    },
    max_pairs=None,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Captions in German alone; news in German and Czech."""
    write(tmp_path / "parallel/captions/en-de.tsv", "The horse runs.\tEin Pferd.", "The child sleeps.\tEin Kind.")
    write(tmp_path / "parallel/news/en-de.tsv", "Good day\tGuten Tag")
    write(
        tmp_path / "parallel/news/en-cs.tsv",
        *(f"{english}\t{other}" for english, other in PAIRS if "horse runs" not in english),
    )
    write(tmp_path / "parallel/news/en-ja.tsv", "The horse runs.\t馬が走る。")
    write(tmp_path / "eval/tatoeba/tatoeba.ces-eng.ces", "Dítě spí!")
    write(tmp_path / "eval/tatoeba/tatoeba.ces-eng.eng", "Something else.")
    return tmp_path


def built(config: CorpusConfig, data: Path, name: str) -> Corpus:
    (data / name).mkdir()
    build_corpus(config, ["cs", "de", "ja"], data, data / name, seed=1)
    return Corpus.load(data / name)


def pairs_of(corpus: Corpus, source: str) -> set[tuple[str, str, str]]:
    of_source = np.flatnonzero(corpus.source_code == corpus.sources.index(source))
    return {
        (corpus.languages[corpus.language_code[i]], corpus.texts[corpus.english[i]], corpus.texts[corpus.other[i]])
        for i in of_source
    }


def test_glosses_are_made_in_languages_that_lack_the_text_and_write_words_apart(data: Path) -> None:
    corpus = built(CONFIG, data, "out")
    assert pairs_of(corpus, "made") == {("cs", "The horse runs.", "kůň běží .")}  # not in German, not in Japanese
    report = json.loads((data / "out/report.json").read_text())
    assert report["kept"]["made/cs"] == 1
    assert report["dropped_of_each"]["made/cs"] == {"in an evaluation set": 1}  # "dítě spí ." is Tatoeba's


def test_the_text_that_is_read_is_the_same_with_glosses_and_without(data: Path) -> None:
    corpus = built(CONFIG, data, "out")
    plain = built(CorpusConfig(sources={"captions": SourceConfig(), "news": SourceConfig()}), data, "plain")
    for source in plain.sources:
        assert pairs_of(corpus, source) == pairs_of(plain, source)


def test_glosses_are_trained_on_but_no_vocabulary_is_made_of_them(data: Path) -> None:
    corpus = built(CONFIG, data, "out")
    config = build(
        RunConfig, {"name": "x", "languages": ["cs"], "corpus": {"sources": {"news": {}}}}, where="x"
    ).tokenizer
    sentences = balanced_sentences(corpus, config, seed=1, sources=CONFIG.texts)
    assert "kůň běží ." not in sentences
    assert "kůň běží ." in balanced_sentences(corpus, config, seed=1)
    drawn = SamplingPlan(corpus, CONFIG, 100, seed=1).whole()
    assert corpus.sources.index("made") in corpus.source_code[drawn]


def test_a_source_of_glosses_needs_sources_that_are_read(tmp_path: Path) -> None:
    from training.config import check

    raw = {"news": {}, "made": {"glosses_of": ["newz"]}}
    config = build(RunConfig, {"name": "x", "languages": ["cs"], "corpus": {"sources": raw}, "stages": []}, where="x")
    with pytest.raises(ConfigError, match=r"made\.glosses_of has 'newz', no source that is read"):
        check(config, where="x")
