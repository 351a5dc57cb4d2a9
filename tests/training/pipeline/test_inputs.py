"""`--pairs FILE`: one file of pairs becomes a run's data."""

from pathlib import Path

import pytest

from tests.parallel_text import write_pairs
from tests.training.files import write
from training.__main__ import main
from training.config.run import load_config
from training.corpora.sources.readers import find_pair_file, read_pairs
from training.errors import CorpusError, TrainingError
from training.pipeline.inputs import STARTER, look_at, read_own_pairs, with_own_pairs, write_data

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
    assert list(read_pairs(found, "de")) == pairs.pairs


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
