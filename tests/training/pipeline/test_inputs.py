"""`--pairs FILE` becomes a run's data, and pairs are held out of a run's own text."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.parallel_text import write_pairs
from tests.training.files import write
from training.__main__ import main
from training.config.run import CorpusConfig, RunConfig, SourceConfig, load_config
from training.corpora.corpus import Corpus
from training.corpora.mix import build_corpus
from training.corpora.readers import find_pair_file, read_pair_file
from training.errors import CorpusError, TrainingError
from training.evaluation.report import evaluate
from training.pipeline.inputs import (
    MOST,
    STARTER,
    hold_out,
    look_at,
    read_own_pairs,
    sample,
    with_own_pairs,
    write_data,
)
from training.pipeline.run import Run

MIXED = ["The old man buys a book", "Der alte Mann kauft ein Buch", "Старик покупает книгу", "老人买了一本书"]


def test_the_languages_are_those_that_the_columns_look_like(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "mine.tsv", pairs=300)
    assert look_at(path) == ("en", "de")
    assert read_own_pairs(path, None).label == "en-de"


def test_english_may_be_the_second_column(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "mine.tsv", pairs=300)
    lines = path.read_text(encoding="utf-8").splitlines()
    swapped = write(tmp_path / "swapped.tsv", *("\t".join(reversed(line.split("\t"))) for line in lines))
    assert read_own_pairs(swapped, None).pairs == read_own_pairs(path, None).pairs
    assert read_own_pairs(swapped, ("de", "en")).languages == ("en", "de")


def test_a_run_reads_them_as_its_only_source(tmp_path: Path) -> None:
    pairs = read_own_pairs(write_pairs(tmp_path / "mine.v2.tsv", pairs=300), None)
    config = with_own_pairs(load_config(STARTER), pairs)
    assert (config.languages, list(config.corpus.sources)) == (["de"], ["mine"])
    write_data(pairs, tmp_path / "data")
    found = find_pair_file(tmp_path / "data/parallel", "mine", "de")
    assert found is not None
    assert list(read_pair_file(found, "de")) == pairs.pairs


@pytest.mark.parametrize(
    ("lines", "languages", "complaint"),
    [
        (["one column"] * 200, ("en", "de"), "has 1 column"),
        ([f"The old man buys {n} books\tDer alte Mann kauft {n} Bücher" for n in range(9)], None, "9 distinct"),
        ([f"La vieille dame {n}\tDer alte Mann {n}" for n in range(200)], ("fr", "de"), "one column must be English"),
        ([f"{text} {n}\t{text} {n}" for n in range(50) for text in MIXED], None, "--languages en,de"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_sentence(
    tmp_path: Path, lines: list[str], languages: tuple[str, str] | None, complaint: str
) -> None:
    with pytest.raises(TrainingError, match=complaint):
        read_own_pairs(write(tmp_path / "mine.tsv", *lines), languages)


def test_a_missing_file_and_wrong_options_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CorpusError, match="cannot be read"):
        read_own_pairs(tmp_path / "none.tsv", None)
    for arguments in ([], ["--pairs", "mine.tsv", "--data", "data"], ["--pairs", "mine.tsv", "--languages", "de"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
    reranker = STARTER.with_name("reranker.yaml")
    assert main(["--pairs", str(write_pairs(tmp_path / "mine.tsv")), "--config", str(reranker)]) == 2
    assert "--pairs distils an encoder" in capsys.readouterr().err


CORPUS = CorpusConfig(sources={"a": SourceConfig(), "b": SourceConfig()})
CONFIG = RunConfig(languages=["de", "fr"], corpus=CORPUS, stages=[])


def data_folder(root: Path) -> Path:
    write(root / "parallel/a/en-de.tsv", *(f"house {number}\tHaus {number}" for number in range(60)))
    write(root / "parallel/b/en-de.tsv", *(f"tree {number}\tBaum {number}" for number in range(40)))
    write(root / "parallel/a/en-fr.tsv", *(f"house {number}\tmaison {number}" for number in range(30)))
    return root


def held_out(folder: Path, language: str) -> list[tuple[str, ...]]:
    text = (folder / f"eval/held_out/en-{language}/pairs.tsv").read_text(encoding="utf-8")
    return [tuple(line.split("\t")) for line in text.splitlines()]


def test_tenth_of_each_language_is_held_out(tmp_path: Path) -> None:
    data, out = data_folder(tmp_path / "data"), tmp_path / "out"
    run = Run(CONFIG, data, out)
    hold_out(CONFIG, data, run.scored)
    held = {language: held_out(run.scored, language) for language in CONFIG.languages}
    assert {language: len(pairs) for language, pairs in held.items()} == {"de": 10, "fr": 3}
    assert {pair[0].split()[0] for pair in held["de"]} == {"house", "tree"}
    (out / "corpus").mkdir()
    build_corpus(CONFIG.corpus, CONFIG.languages, data, out / "corpus", seed=1, scored=run.scored)
    texts = set(Corpus.load(out / "corpus").texts)
    assert texts
    assert not texts & {text for pairs in held.values() for pair in pairs for text in pair}


def test_the_same_text_and_seed_hold_out_the_same_pairs(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    for name in ("one", "two"):
        hold_out(CONFIG, data, tmp_path / name)
    assert held_out(tmp_path / "one", "de") == held_out(tmp_path / "two", "de")


def test_data_with_an_evaluation_set_is_scored_on_that(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    assert Run(CONFIG, data, tmp_path / "out").scored != data
    write(data / "eval/tatoeba/tatoeba.deu-eng.deu", "Haus")
    assert Run(CONFIG, data, tmp_path / "out").scored == data


def test_a_sample_is_uniform_bounded_and_repeats_no_sentence() -> None:
    pairs = [(f"word{number}", f"Wort{number}") for number in range(4 * MOST)]
    drawn = Counter(pair for seed in range(20) for pair in sample(pairs, seed=seed))
    assert sum(drawn.values()) == 20 * (4 * MOST // 10)
    early = sum(count for (english, _), count in drawn.items() if int(english[4:]) < 2 * MOST)
    assert 0.45 < early / sum(drawn.values()) < 0.55
    assert len(sample([(f"word {number}", "gleich") for number in range(50)], seed=1)) == 1
    assert len(sample([*pairs, *pairs[:3000]], seed=1)) <= MOST


def test_what_is_held_out_is_scored_by_language(tmp_path: Path) -> None:
    hold_out(CONFIG, data_folder(tmp_path / "data"), tmp_path)

    def encode(texts: list[str]) -> np.ndarray:
        """Translations have the number in common: found for German, and French is mixed up."""
        numbers = [int(text.split()[-1]) + 100 * (text.split()[0] in ("tree", "Baum")) for text in texts]
        shift = [7 if text.startswith("maison") else 0 for text in texts]
        return np.eye(300, dtype=np.float32)[np.add(numbers, shift)]

    scores = evaluate(encode, tmp_path, ["de", "fr"])["held_out_p1"]
    assert scores["de"] == 100
    assert scores["fr"] < 100


def test_a_language_without_text_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path / "parallel/a/en-de.tsv", "house\tHaus")
    write(tmp_path / "parallel/b/en-de.tsv", "tree\tBaum")
    with pytest.raises(CorpusError, match="no parallel text for 'fr'"):
        hold_out(CONFIG, tmp_path, tmp_path / "held-out")
