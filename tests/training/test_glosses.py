import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.training.files import write
from training.config import RunConfig
from training.corpora import dictionary as dictionaries
from training.corpora.config import CorpusConfig, SourceConfig
from training.corpora.corpus import Corpus
from training.corpora.dictionary import NULL, Dictionary, model_one, stemmer
from training.corpora.glosses import gloss
from training.corpora.mix import build_corpus
from training.corpora.plan import sampling_plan
from training.errors import ConfigError
from training.parsing import build
from training.tokenizer import balanced_sentences

NOUNS = {"dog": "pes", "cat": "kočka", "horse": "kůň", "child": "dítě"}
VERBS = {"sleeps": "spí", "runs": "běží", "drinks": "pije"}
PAIRS = [
    (f"The {noun} {verb}{end}", f"{NOUNS[noun]} {VERBS[verb]}{end}")
    for noun, verb, end in product(NOUNS, VERBS, ["", ".", "!"])
]


def generator() -> np.random.Generator:
    return np.random.default_rng(1)


def test_a_gloss_has_the_words_of_a_translation() -> None:
    """Word by word, in English order, without the article, which Czech lacks."""
    dictionary = Dictionary(PAIRS, "cs")
    assert len(dictionary) == len(NOUNS) + len(VERBS) + 2  # . and !
    assert gloss("The horse drinks.", dictionary, generator()) == "kůň pije ."
    assert gloss("sleeps the DOG", dictionary, generator()) == "spí pes"


def test_an_unknown_word_stays_and_too_many_make_no_gloss() -> None:
    dictionary = Dictionary(PAIRS, "cs")
    assert gloss("The zebra sleeps.", dictionary, generator()) == "zebra spí ."
    assert gloss("Zebras and lions never sleep.", dictionary, generator()) is None
    assert gloss("The", dictionary, generator()) is None


def test_candidates_are_drawn_by_probability() -> None:
    dictionary = Dictionary([("bank", "banka")] * 12 + [("bank", "břeh")] * 3, "cs")
    drawn = generator()
    glosses = [gloss("bank", dictionary, drawn) for _ in range(200)]
    assert set(glosses) == {"banka", "břeh"}
    assert 130 < glosses.count("banka") < 190  # 0.8 of them


def test_a_form_that_was_never_seen_is_found_by_its_stem() -> None:
    """In the form that the language writes most often."""
    dictionary = Dictionary([("Horses", "Pferde")] * 3 + [("Horses", "Pferden")] * 2, "de")
    assert gloss("horses", dictionary, generator()) == "pferde"  # as it is written; too few have "pferden"
    assert gloss("horse", dictionary, generator()) == "pferde"
    assert gloss("zebra", dictionary, generator()) is None


def test_a_language_without_a_stemmer_keeps_its_words_as_they_are() -> None:
    assert stemmer("cs")("kočkami") == stemmer("cs")("kočky")
    assert stemmer("ko")("친구를") == "친구를"
    dictionary = Dictionary([("Friends", "친구를")] * 5, "ko")
    assert gloss("friend", dictionary, generator()) == "친구를"


def test_a_word_is_lacking_only_where_much_text_says_so() -> None:
    """The article that Czech lacks goes; a noun of a few sentences, whose counterpart was not found, stays."""
    few = [*PAIRS[::3], ("A lamp", "x y"), ("A lamp", "z w")]
    assert gloss("The lamp sleeps dog", Dictionary(few, "cs"), generator()) == "the lamp spí pes"
    assert gloss("The lamp sleeps dog", Dictionary(PAIRS, "cs"), generator()) == "lamp spí pes"


def test_a_long_sentence_is_put_whole() -> None:
    assert gloss("dog " * 60, Dictionary(PAIRS, "cs"), generator()) == " ".join(["pes"] * 60)


def test_translation_probabilities_of_a_source_word_add_up_to_one() -> None:
    source, target = [np.array([1, 2]), np.array([1, 3])], [np.array([1, 2]), np.array([1, 3, 3])]
    table, counts = model_one(source, target)
    assert np.asarray(table.sum(axis=1)).ravel() == pytest.approx([1, 1, 1, 1])
    assert counts.sum() == pytest.approx(5)  # each target word is somebody's translation
    assert counts[NULL].sum() > 0
    assert table[2, 2] > 0.8  # 1 explains what both pairs share, which leaves 2 for 2 and 3 for 3
    assert table[3, 3] > 0.9


def test_only_so_many_cells_are_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionaries, "MAX_CELLS", 12 * 18)  # the dogs and the cats, of 12 to 20 cells each
    dictionary = Dictionary(PAIRS, "cs")
    assert "kočka" in str(gloss("cat sleeps", dictionary, generator()))
    assert "child" in str(gloss("child sleeps", dictionary, generator()))


def test_a_dictionary_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="needs pairs"):
        Dictionary([], "cs")


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
    write(tmp_path / "eval/tatoeba/tatoeba.ces-eng.ces", "The dítě spí!")
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
    assert pairs_of(corpus, "made") == {("cs", "The horse runs.", "the kůň běží .")}  # not in German, not in Japanese
    report = json.loads((data / "out/report.json").read_text())
    assert report["kept"]["made/cs"] == 1
    assert report["dropped_of_each"]["made/cs"] == {"in an evaluation set": 1}  # "the dítě spí ." is one of Tatoeba's


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
    assert "the kůň běží ." not in sentences
    assert "the kůň běží ." in balanced_sentences(corpus, config, seed=1)
    drawn = sampling_plan(corpus, CONFIG, 100, seed=1)
    assert corpus.sources.index("made") in corpus.source_code[drawn]


def test_a_source_of_glosses_needs_sources_that_are_read(tmp_path: Path) -> None:
    from training.config import check

    raw = {"news": {}, "made": {"glosses_of": ["newz"]}}
    config = build(RunConfig, {"name": "x", "languages": ["cs"], "corpus": {"sources": raw}, "stages": []}, where="x")
    with pytest.raises(ConfigError, match=r"made\.glosses_of has 'newz', no source that is read"):
        check(config, where="x")
