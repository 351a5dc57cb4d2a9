import gzip
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.tiny import tiny_corpus
from training.corpora.config import CorpusConfig, SourceConfig
from training.corpora.leakage import EvaluationSentences, check_no_leakage, normalize_for_matching
from training.corpora.mix import Corpus, build_corpus, language_shares, sampling_plan
from training.corpora.readers import read_tsv_pairs
from training.errors import CorpusError, LeakageError


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(line + "\n" for line in lines)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["en-de.tsv", "en-de.tsv.gz"])
def test_plain_and_gzip_pairs_read_the_same(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "Good day\tGuten Tag", "Thanks\tDanke\r")
    assert list(read_tsv_pairs(path)) == [("Good day", "Guten Tag"), ("Thanks", "Danke")]


@pytest.mark.parametrize("line", ["only one", "a\tb\tc", "\tb", "a\t ", ""])
def test_a_line_that_is_not_a_pair_stops_with_file_and_line_number(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "en-de.tsv", "Good day\tGuten Tag", line)
    with pytest.raises(CorpusError, match=r"en-de\.tsv line 2 has \d columns.*on_bad_line: skip"):
        list(read_tsv_pairs(path))


def test_a_line_that_is_not_a_pair_is_skipped_by_setting(tmp_path: Path) -> None:
    path = write(tmp_path / "en-de.tsv", "one", "Good day\tGuten Tag", "a\tb\tc")
    assert list(read_tsv_pairs(path, on_bad_line="skip")) == [("Good day", "Guten Tag")]


def test_a_truncated_gzip_and_broken_utf8_are_one_sentence(tmp_path: Path) -> None:
    whole = gzip.compress(b"Good day\tGuten Tag\n" * 500)
    (tmp_path / "cut.tsv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "latin.tsv").write_bytes("Tür\tdoor\n".encode("latin-1"))
    (tmp_path / "flipped.tsv.gz").write_bytes(whole[:20] + bytes([whole[20] ^ 255]) + whole[21:])
    for name in ("cut.tsv.gz", "latin.tsv", "flipped.tsv.gz"):
        with pytest.raises(CorpusError, match=f"{name} cannot be read to its end"):
            list(read_tsv_pairs(tmp_path / name))


def test_matching_ignores_case_punctuation_spacing_and_width() -> None:
    assert normalize_for_matching("Ｈｅｌｌｏ,  World!") == normalize_for_matching("hello world")
    assert normalize_for_matching("Straße") == normalize_for_matching("STRASSE")


def data_folder(root: Path) -> Path:
    write(root / "parallel/news/en-de.tsv", "Good day\tGuten Tag", "Thanks\tDanke", "I sleep\tIch schlafe", "Hi\tHallo")
    write(root / "parallel/talks/en-de.tsv.gz", "good day!\tGuten Tag.", "New\tNeu")
    write(root / "eval/stsb/dev/en-de.tsv", "5\tTHANKS!\tIrgendwas anderes", "2.5\tSomething else\tich schlafe.")
    return root


CONFIG = CorpusConfig(sources={"news": SourceConfig(), "talks": SourceConfig()})


def test_a_corpus_holds_no_evaluation_sentence_and_no_duplicate(tmp_path: Path) -> None:
    data, out = data_folder(tmp_path / "data"), tmp_path / "out"
    out.mkdir()
    build_corpus(CONFIG, ["de"], data, out, seed=1)
    corpus = Corpus.load(out / "pairs.tsv")
    pairs = {
        (corpus.texts[left], corpus.texts[right]) for left, right in zip(corpus.english, corpus.other, strict=True)
    }
    assert pairs == {("Good day", "Guten Tag"), ("Hi", "Hallo"), ("New", "Neu")}
    report = json.loads((out / "report.json").read_text())
    assert report["dropped"]["in an evaluation set"] == 2  # one leaked on the English side, one on the German
    assert report["dropped"]["duplicate"] == 1


def test_the_final_check_sees_a_leak_on_either_side() -> None:
    evaluation = EvaluationSentences(["Thanks", "Ich schlafe"])
    assert check_no_leakage([("Hi", "Hallo")], evaluation) == 1
    for pair in [("thanks!", "x"), ("x", "ICH SCHLAFE")]:
        with pytest.raises(LeakageError, match="training pair 2"):
            check_no_leakage([("Hi", "Hallo"), pair], evaluation)


def test_a_run_without_its_evaluation_sets_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "parallel/news/en-de.tsv", "Good day\tGuten Tag")
    write(tmp_path / "parallel/talks/en-de.tsv", "New\tNeu")
    for _ in ("missing", "empty"):
        with pytest.raises(LeakageError, match="holds no evaluation sentence, so leakage cannot be ruled out"):
            build_corpus(CONFIG, ["de"], tmp_path, tmp_path, seed=1)
        (tmp_path / "eval").mkdir(exist_ok=True)


def test_evaluation_sentences_behind_a_link_are_found(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/test.tsv", "5\tThanks\tDanke")
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval/stsb").symlink_to(tmp_path / "elsewhere")
    assert "thanks!" in EvaluationSentences.from_folder(tmp_path / "eval")


def test_a_source_without_a_file_is_refused_by_name(tmp_path: Path) -> None:
    config = CorpusConfig(sources={**CONFIG.sources, "novels": SourceConfig()})
    with pytest.raises(CorpusError, match="source 'novels' has no"):
        build_corpus(config, ["de"], data_folder(tmp_path / "data"), tmp_path, seed=1)


@pytest.mark.parametrize("lines", [None, []])
def test_a_missing_or_empty_corpus_is_refused_by_language(tmp_path: Path, lines: list[str] | None) -> None:
    data = data_folder(tmp_path / "data")
    if lines is not None:
        write(data / "parallel/news/en-fr.tsv", *lines)
    with pytest.raises(CorpusError, match="no parallel text for 'fr'"):
        build_corpus(CONFIG, ["de", "fr"], data, tmp_path, seed=1)


def test_the_cap_is_per_source_and_language(tmp_path: Path) -> None:
    data, out = data_folder(tmp_path / "data"), tmp_path / "out"
    out.mkdir()
    build_corpus(CorpusConfig(sources=CONFIG.sources, max_pairs=1), ["de"], data, out, seed=1)
    assert Counter(Corpus.load(out / "pairs.tsv").source.tolist()) == {"news": 1, "talks": 1}


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 10**7), min_size=1, max_size=20), st.floats(0, 1))
def test_language_shares_sum_to_one_and_keep_the_order_of_sizes(counts: dict[str, int], exponent: float) -> None:
    shares = language_shares(counts, exponent)
    assert sum(shares.values()) == pytest.approx(1)
    by_size = sorted(counts, key=counts.__getitem__)
    assert all(shares[a] <= shares[b] + 1e-12 for a, b in pairwise(by_size))


def test_a_plan_is_deterministic_and_sees_every_pair_before_any_twice() -> None:
    corpus, _ = tiny_corpus(40)
    config = CorpusConfig(sources={"news": SourceConfig()})
    plan = sampling_plan(corpus, config, 60, seed=3)
    assert np.array_equal(plan, sampling_plan(corpus, config, 60, seed=3))
    assert not np.array_equal(plan, sampling_plan(corpus, config, 60, seed=4))
    seen = Counter(plan.tolist())
    assert len(plan) == 60
    assert set(seen) == set(range(40))
    assert max(seen.values()) == 2


def test_source_weights_shift_the_mix() -> None:
    corpus, _ = tiny_corpus(40)
    source = np.array(["captions"] * 10 + ["manuals"] * 30)
    corpus = Corpus(corpus.texts, corpus.english_count, corpus.english, corpus.other, np.array(["de"] * 40), source)
    config = CorpusConfig(sources={"captions": SourceConfig(weight=9), "manuals": SourceConfig(weight=1)})
    drawn = Counter(corpus.source[sampling_plan(corpus, config, 120, seed=1)].tolist())
    assert drawn == {"captions": 90, "manuals": 30}  # 10 x 9 against 30 x 1
