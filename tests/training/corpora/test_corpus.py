import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.files import write
from training.config.run import CorpusConfig, SourceConfig
from training.corpora.corpus import Corpus, CorpusWriter
from training.corpora.mix import build_corpus
from training.errors import CorpusError, LeakageError

CONFIG = CorpusConfig(sources={"news": SourceConfig(), "talks": SourceConfig()})


def data_folder(root: Path) -> Path:
    write(
        root / "parallel/news/en-de.tsv",
        "Good day\tGuten Tag",
        "Thanks\tDanke",
        "I sleep\tIch schlafe",
        "Hello all\tMoin zusammen",
    )
    write(root / "parallel/talks/en-de.tsv.gz", "good day!\tGuten Tag.", "New\tNeu")
    write(root / "eval/stsb/dev/en-de.tsv", "5\tTHANKS!\tIrgendwas anderes", "2.5\tSomething else\tich schlafe.")
    return root


def pairs_of(corpus: Corpus) -> Iterator[tuple[str, str, str, str]]:
    """(language, source, English, other) of each pair."""
    for i in range(len(corpus)):
        names = corpus.languages[corpus.language_code[i]], corpus.sources[corpus.source_code[i]]
        yield *names, corpus.texts[corpus.english[i]], corpus.texts[corpus.other[i]]


def build(config: CorpusConfig, languages: list[str], data: Path, out: Path, seed: int = 1) -> Corpus:
    out.mkdir(exist_ok=True)
    build_corpus(config, languages, data, out, seed=seed)
    return Corpus.load(out)


def test_a_corpus_holds_no_evaluation_sentence_and_no_duplicate(tmp_path: Path) -> None:
    corpus = build(CONFIG, ["de"], data_folder(tmp_path / "data"), tmp_path / "out")
    assert {pair[2:] for pair in pairs_of(corpus)} == {
        ("Good day", "Guten Tag"),
        ("Hello all", "Moin zusammen"),
        ("New", "Neu"),
    }
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["dropped"] == {"in an evaluation set": 2, "duplicate": 1}  # one leaked in English, one in German
    assert report["kept"] == {"news/de": 2, "talks/de": 1}
    assert report["dropped_of_each"] == {"news/de": {"in an evaluation set": 2}, "talks/de": {"duplicate": 1}}
    assert report["pairs"] == 3


def test_noise_adds_copies_but_no_evaluation_sentence(tmp_path: Path) -> None:
    lines = [f"Where is order {number}\tWo ist die Bestellung {number}" for number in range(200)]
    plain = {tuple(line.split("\t")) for line in lines}
    write(tmp_path / "parallel/news/en-de.tsv", *lines)
    write(tmp_path / "eval/stsb/dev/en-de.tsv", "5\tx\ty")
    config = CorpusConfig(sources={"news": SourceConfig()}, noise=0.5)

    def copies() -> list[tuple[str, str]]:
        pairs = [
            (english, other) for _, _, english, other in pairs_of(build(config, ["de"], tmp_path, tmp_path / "out"))
        ]
        assert plain <= set(pairs)
        assert json.loads((tmp_path / "out/report.json").read_text())["pairs"] == len(pairs)
        return [pair for pair in pairs if pair not in plain]

    first = copies()
    assert 70 <= len(first) <= 130
    assert {english for english, _ in first} <= {english for english, _ in plain}
    leak = next(copy for _, copy in first if copy.lower().startswith("wo ist die") and "bestellung" not in copy.lower())
    write(tmp_path / "eval/stsb/dev/en-de.tsv", f"5\tx\t{leak}")
    assert leak not in [copy for _, copy in copies()]


def test_a_run_without_its_evaluation_sets_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "parallel/news/en-de.tsv", "Good day\tGuten Tag")
    write(tmp_path / "parallel/talks/en-de.tsv", "New\tNeu")
    for _ in ("missing", "empty"):
        with pytest.raises(LeakageError, match="holds no evaluation sentence, so leakage cannot be ruled out"):
            build_corpus(CONFIG, ["de"], tmp_path, tmp_path, seed=1)
        (tmp_path / "eval").mkdir(exist_ok=True)


@pytest.mark.parametrize("lines", [None, [], ["Thanks\tMerci"]])
def test_a_missing_or_empty_corpus_is_refused_by_language(tmp_path: Path, lines: list[str] | None) -> None:
    data = data_folder(tmp_path / "data")
    if lines is not None:
        write(data / "parallel/news/en-fr.tsv", *lines)
    with pytest.raises(CorpusError, match="no parallel text for 'fr'"):
        build_corpus(CONFIG, ["de", "fr"], data, tmp_path, seed=1)
    with pytest.raises(CorpusError, match="holds no corpus"):  # what was written does not look finished
        Corpus.load(tmp_path)
    config = CorpusConfig(sources={**CONFIG.sources, "novels": SourceConfig()})
    with pytest.raises(CorpusError, match="source 'novels' has no"):
        build_corpus(config, ["de"], data, tmp_path, seed=1)


def test_a_cap_keeps_a_sample_by_seed_in_the_order_of_the_file(tmp_path: Path) -> None:
    write(tmp_path / "parallel/news/en-de.tsv", *(f"number {i:03}\tZahl {i:03}" for i in range(200)))
    write(tmp_path / "eval/test.tsv", "something else")
    config = CorpusConfig(sources={"news": SourceConfig(max_pairs=50)}, max_pairs=None)
    out = tmp_path / "out"
    kept = [list(pairs_of(build(config, ["de"], tmp_path, out, seed))) for seed in (1, 1, 2)]
    assert len(kept[0]) == 50
    assert kept[0] == sorted(kept[0])
    assert kept[0] == kept[1] != kept[2]
    write(tmp_path / "parallel/talks/en-de.tsv", "other\tAndere", "another\tNoch andere")
    by_source = Counter(
        source for _, source, *_ in pairs_of(build(CONFIG.model_copy(update={"max_pairs": 1}), ["de"], tmp_path, out))
    )
    assert by_source == {"news": 1, "talks": 1}  # the cap is of each source
    everything = CorpusConfig(sources={"news": SourceConfig()}, max_pairs=None)
    assert len(build(everything, ["de"], tmp_path, out)) == 200


def test_every_text_is_stored_once_and_english_comes_first(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path, ["de", "fr"], ["news", "talks"]) as writer:
        writer.add([("Hello all", "Moin zusammen"), ("Yes", "Ja")], language="de", source="news")
        writer.add([("Hello all", "Salut"), ("No", "Moin zusammen")], language="fr", source="talks")
    corpus = Corpus.load(tmp_path)
    assert list(corpus.texts) == ["Hello all", "Yes", "No", "Moin zusammen", "Ja", "Salut"]
    assert corpus.english_count == 3
    assert list(pairs_of(corpus)) == [
        ("de", "news", "Hello all", "Moin zusammen"),
        ("de", "news", "Yes", "Ja"),
        ("fr", "talks", "Hello all", "Salut"),
        ("fr", "talks", "No", "Moin zusammen"),
    ]
    assert corpus.texts_in("en").tolist() == [0, 1, 2]
    assert corpus.texts_in("fr").tolist() == [3, 5]
    assert {path.name for path in tmp_path.iterdir()} == {
        "texts.bin", "texts.npy", "english.npy", "other.npy", "language.npy", "source.npy", "corpus.json",
    }  # fmt: skip


PAIRS = st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text(max_size=5)), min_size=1, max_size=40
)


@settings(max_examples=40)
@given(pairs=PAIRS, cut=st.integers(0, 40))
def test_any_pairs_written_in_any_batches_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    with CorpusWriter(folder, ["de"], ["news"]) as writer:
        writer.add(pairs[:cut], language="de", source="news")
        writer.add(pairs[cut:], language="de", source="news")
    corpus = Corpus.load(folder)
    assert [pair[2:] for pair in pairs_of(corpus)] == pairs
    texts = [corpus.texts[i] for i in range(len(corpus.texts))]
    assert texts == list(corpus.texts) == corpus.texts[:]
    assert texts[-1] == corpus.texts[-1]
    assert corpus.texts[1:5] == texts[1:5]
    assert corpus.texts[::-2] == texts[::-2]
    with pytest.raises(IndexError):
        corpus.texts[len(texts)]


def test_a_killed_writer_leaves_nothing_that_loads(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path, ["de"], ["news"]) as writer:
        writer.add([("Hello all", "Moin zusammen")], language="de", source="news")
    with pytest.raises(KeyboardInterrupt), CorpusWriter(tmp_path, ["de"], ["news"]) as writer:  # noqa: PT012
        writer.add([("Yes", "Ja")], language="de", source="news")
        raise KeyboardInterrupt
    with pytest.raises(CorpusError, match=r"holds no corpus: .*corpus\.json is missing"):
        Corpus.load(tmp_path)


BUILD_AND_REPORT_PEAK = """
import re, sys, threading
from pathlib import Path
from training.config.run import CorpusConfig, SourceConfig
from training.corpora.mix import build_corpus

peak, done = 0, threading.Event()

def watch():  # anonymous memory: pages mapped from files are the system's to drop
    global peak
    while not done.wait(0.02):
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))

watcher = threading.Thread(target=watch)
watcher.start()
folder = Path(sys.argv[1])
build_corpus(CorpusConfig(sources={"news": SourceConfig()}, max_pairs=None), ["de"], folder, folder, seed=1)
done.set()
watcher.join()
print(peak * 1024)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_half_a_million_pairs_take_no_more_memory_than_the_bound(tmp_path: Path) -> None:
    peaks = []
    for pairs in (10_000, 500_000):  # all texts distinct: the worst case
        folder = tmp_path / str(pairs)
        write(folder / "parallel/news/en-de.tsv", *(f"one {i} {'x' * 80}\tzwei {i} {'y' * 80}" for i in range(pairs)))
        write(folder / "eval/test.tsv", "something else")
        command = [sys.executable, "-c", BUILD_AND_REPORT_PEAK, str(folder)]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    growth = (peaks[1] - peaks[0]) / 500_000
    print(f"{growth:.0f} bytes a pair; peaks {peaks}")
    # 81 is what training/corpora/mix.py promises; pages of mapped files count while they stay. The text alone has 180.
    assert growth <= 100
