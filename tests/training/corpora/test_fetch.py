"""The way from an address to a data folder, against the scripted server of test_download."""

import gzip
import shutil
from pathlib import Path

import datasets
import httpx
import pytest

from tests.training.corpora.test_download import EAGER, ScriptedServer, running, server, status, whole
from tests.training.corpora.test_readers import PAIRS, TMX, TRANSLATION, moses, zipped
from training.config.run import CorpusConfig, SourceConfig
from training.corpora import fetch
from training.corpora.__main__ import main
from training.corpora.catalog import CatalogEntry, SourceFiles, load_catalog
from training.corpora.fetch import ensure_sources, fetch_source, languages_there
from training.corpora.mix import build_corpus
from training.corpora.readers import read_pair_file
from training.errors import FetchError

__all__ = ["running", "server"]  # fixtures
TED = "talkid\ten\tde\tfr\tzh-tw\n1\tGood day\tGuten Tag\t\t日安\n1\tThanks & bye\tDanke & tschüss\tMerci\t\n"


def source(files: SourceFiles | None, *, kind: str = "parallel", languages: str = "de fr zh_Hant") -> CatalogEntry:
    about = {"title": "A title", "licence": "CC0 1.0", "terms": "permissive", "url": "https://example.org"}
    return CatalogEntry(**about, kind=kind, languages=languages.split(), files=files)


@pytest.fixture
def catalog(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, CatalogEntry]:
    """A small catalogue of what the server has; eager to give up."""
    sts = zipped({"STS2017-extended/STS.en-de.txt": "A cat\tEine Katze\t5.0\n"})
    at = f"http://127.0.0.1:{server.server_address[1]}"
    for path, body in {
        "/de-en.txt.zip": moses(),
        "/all.en-de-AT.tmx.zip": zipped({"all.tmx": TMX}),
        "/ted.tsv.gz": gzip.compress(TED.encode()),
        "/deu-eng.zip": zipped({"_about.txt": "about", "deu.txt": "Hi\tHallo\tCC-BY\nRun\tLauf\tCC-BY\n"}),
        "/STS.zip": sts,
        "/tatoeba.deu-eng.deu": b"Hallo\n",
        "/tatoeba.deu-eng.eng": b"Hi\n",
    }.items():
        server.url(whole(body), path=path)
    aligned = [f"{at}/tatoeba.{{code}}-eng.{{code}}", f"{at}/tatoeba.{{code}}-eng.eng"]
    known = {
        "moses": source(SourceFiles(urls=[f"{at}/{{pair}}.txt.zip"], format="moses")),
        "tmx": source(SourceFiles(urls=[f"{at}/all.en-{{code}}.tmx.zip"], format="tmx", codes={"de": "de-AT"})),
        "ted": source(SourceFiles(urls=[f"{at}/ted.tsv.gz"], format="multiway", codes={"zh_Hant": "zh-tw"})),
        "cards": source(
            SourceFiles(urls=[f"{at}/{{code}}-eng.zip"], format="tsv_zip", codes={"de": "deu"}), languages="de"
        ),
        "made": source(None),
        "sts": source(
            SourceFiles(urls=[f"{at}/STS.zip"], format="unpacked", folder="STS2017-extended"), kind="evaluation"
        ),
        "tatoeba": source(
            SourceFiles(urls=aligned, format="plain", codes={"de": "deu"}, folder="tatoeba"),
            kind="evaluation", languages="de",
        ),
    }  # fmt: skip
    monkeypatch.setattr(fetch, "load_catalog", lambda: known)
    monkeypatch.setattr(fetch, "PATIENCE", EAGER)
    return known


def files_in(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    }


def test_every_format_becomes_the_same_bytes(catalog: dict[str, CatalogEntry], tmp_path: Path) -> None:
    contents = set()
    for name in ("moses", "tmx", "ted"):
        fetch_source(name, ["de"], tmp_path)
        contents.add((tmp_path / f"parallel/{name}/en-de.tsv.gz").read_bytes())
        assert languages_there(name, catalog[name], tmp_path) == ["de"]
    (content,) = contents
    assert gzip.decompress(content).decode() == "".join(f"{en}\t{de}\n" for en, de in PAIRS)


def test_other_columns_and_codes_of_a_source_are_known(catalog: dict[str, CatalogEntry], tmp_path: Path) -> None:
    fetch_source("ted", ["zh_Hant", "fr"], tmp_path)
    assert list(read_pair_file(tmp_path / "parallel/ted/en-zh_Hant.tsv.gz", "zh_Hant")) == [("Good day", "日安")]
    assert list(read_pair_file(tmp_path / "parallel/ted/en-fr.tsv.gz", "fr")) == [("Thanks & bye", "Merci")]


def test_bad_lines_are_skipped_by_setting_and_logged(
    catalog: dict[str, CatalogEntry], server: ScriptedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.url(whole(zipped({"deu.txt": b"Hi\tHallo\tx\nT\xfcr\tx\tx\none\nRun\tLauf\tx\n"})), path="/deu-eng.zip")
    with pytest.raises(FetchError, match=r"deu\.txt line 2 is not valid UTF-8 \(corpus\.on_bad_line: skip "):
        fetch_source("cards", ["de"], tmp_path / "kept")
    fetch_source("cards", ["de"], tmp_path / "kept", on_bad_line="skip")  # from the download that was kept
    assert len(server.ranges) == 1
    wanted = CorpusConfig(sources={"cards": SourceConfig()}, fetch=True, on_bad_line="skip")
    ensure_sources(wanted, ["de"], tmp_path / "run")
    arguments = ["fetch", "cards", "--languages", "de", "--data", str(tmp_path / "command")]
    assert main([*arguments, "--on-bad-line", "skip"]) == 0
    for folder in ("kept", "run", "command"):
        path = tmp_path / folder / "parallel/cards/en-de.tsv.gz"
        assert list(read_pair_file(path, "de")) == [("Hi", "Hallo"), ("Run", "Lauf")]
    assert "cards: skipped 2 lines in de that are not pairs" in caplog.text


def test_what_is_there_is_not_fetched_again(
    catalog: dict[str, CatalogEntry], server: ScriptedServer, tmp_path: Path
) -> None:
    asked = []
    for _ in range(2):
        fetch_source("moses", ["de"], tmp_path)
        fetch_source("tatoeba", ["de"], tmp_path)
        asked.append(len(server.ranges))
    (tmp_path / "parallel/moses/en-de.tsv.gz").unlink()
    fetch_source("moses", ["de"], tmp_path)  # from the download that was kept
    assert {*asked, len(server.ranges)} == {3}
    assert (tmp_path / "parallel/moses/en-de.tsv.gz").exists()


def test_evaluation_sets_keep_their_own_layout(catalog: dict[str, CatalogEntry], tmp_path: Path) -> None:
    for name in ("sts", "tatoeba"):
        fetch_source(name, ["de"], tmp_path)
    assert files_in(tmp_path / "eval") == {
        "STS2017-extended/STS.en-de.txt",
        "tatoeba/tatoeba.deu-eng.deu",
        "tatoeba/tatoeba.deu-eng.eng",
    }
    assert languages_there("tatoeba", catalog["tatoeba"], tmp_path) == ["de"]


@pytest.mark.parametrize("name", ["moses", "tmx", "ted", "sts"])
@pytest.mark.parametrize("damage", ["cut", "another page"])
def test_a_corrupt_archive_leaves_nothing_that_looks_finished(
    catalog: dict[str, CatalogEntry], server: ScriptedServer, tmp_path: Path, name: str, damage: str
) -> None:
    url = catalog[name].files.addresses("de")[0]
    path = "/" + url.rpartition("/")[2]
    sound = httpx.get(url).content
    server.url(whole({"cut": sound[:-20], "another page": b"<html>busy</html>"}[damage]), path=path)
    with pytest.raises(FetchError, match=r"gave nothing that can be used: .*; the download was removed"):
        fetch_source(name, ["de"], tmp_path)
    assert files_in(tmp_path) == set()
    server.url(whole(sound), path=path)
    fetch_source(name, ["de"], tmp_path)
    assert languages_there(name, catalog[name], tmp_path)[0] == "de"


def test_an_archive_without_a_pair_is_refused(
    catalog: dict[str, CatalogEntry], server: ScriptedServer, tmp_path: Path
) -> None:
    server.url(whole(zipped({"N.de-en.en": "\nHi\n", "N.de-en.de": "Hallo\n \n"})), path="/de-en.txt.zip")
    with pytest.raises(FetchError, match="moses has no pair in de"):
        fetch_source("moses", ["de"], tmp_path)
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize(
    ("name", "language", "complaint"),
    [
        ("moses", "xx", "moses has no xx; it has de, fr, zh_Hant"),
        ("moses", "fr", r"en-fr\.txt\.zip cannot be downloaded: the server answered 404"),
        ("made", "de", r"made cannot be downloaded: it was made from https://example\.org"),
        ("unknown", "de", "unknown is not in the catalogue; `crosslet corpora list` shows all"),
    ],
)
def test_what_cannot_be_fetched_is_one_sentence(
    catalog: dict[str, CatalogEntry], tmp_path: Path, name: str, language: str, complaint: str
) -> None:
    with pytest.raises(FetchError, match=complaint):
        fetch_source(name, [language], tmp_path)


def test_a_run_fetches_missing_sources_and_evaluation_sets(catalog: dict[str, CatalogEntry], tmp_path: Path) -> None:
    config = CorpusConfig(sources={"moses": SourceConfig(), "ted": SourceConfig()}, max_length_ratio=None)
    ensure_sources(config, ["de"], tmp_path)
    assert files_in(tmp_path) == set()  # not asked to
    config = config.model_copy(update={"fetch": True})
    with pytest.raises(FetchError, match="404"):  # the catalogue promises French, this server has none
        ensure_sources(config, ["de", "fr"], tmp_path)
    ensure_sources(config, ["de", "xx"], tmp_path)
    assert languages_there("sts", catalog["sts"], tmp_path)
    shutil.rmtree(tmp_path / "downloads")
    ensure_sources(config, ["de", "xx"], tmp_path)
    assert not (tmp_path / "downloads").exists()  # all is there: the folder may be read-only
    (tmp_path / "out").mkdir()
    build_corpus(config, ["de"], tmp_path, tmp_path / "out", seed=1)


def test_an_evaluation_set_is_not_fetched_to_train_on(catalog: dict[str, CatalogEntry], tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="sts is an evaluation set and cannot be trained on"):
        ensure_sources(CorpusConfig(sources={"sts": SourceConfig()}, fetch=True), ["de"], tmp_path)


def test_evaluation_sets_of_ones_own_are_left_alone(catalog: dict[str, CatalogEntry], tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval/own.tsv").write_text("5\tA\tB\n")
    ensure_sources(CorpusConfig(sources={"moses": SourceConfig()}, fetch=True), ["de"], tmp_path)
    assert files_in(tmp_path / "eval") == {"own.tsv"}


def test_evaluation_sets_that_broke_off_are_completed(
    catalog: dict[str, CatalogEntry], server: ScriptedServer, tmp_path: Path
) -> None:
    """What came first would otherwise pass for all of them, and the rest would be trained on."""
    config = CorpusConfig(sources={"moses": SourceConfig()}, fetch=True)
    server.url(status(404), path="/tatoeba.deu-eng.eng")
    with pytest.raises(FetchError, match="404"):
        ensure_sources(config, ["de"], tmp_path)
    assert languages_there("sts", catalog["sts"], tmp_path)
    server.url(whole(b"Hi\n"), path="/tatoeba.deu-eng.eng")
    ensure_sources(config, ["de"], tmp_path)
    assert languages_there("tatoeba", catalog["tatoeba"], tmp_path) == ["de"]
    (tmp_path / "eval/tatoeba/tatoeba.deu-eng.eng").unlink()
    ensure_sources(config, ["de"], tmp_path)  # they were all there once: what is missing now is somebody's choice
    assert languages_there("tatoeba", catalog["tatoeba"], tmp_path) == []


def test_a_source_may_name_a_dataset(
    catalog: dict[str, CatalogEntry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub/books"  # a name that `datasets` resolves to a folder, as it does a hub's
    (hub / "de-en").mkdir(parents=True)
    datasets.Dataset.from_dict(TRANSLATION).to_parquet(hub / "de-en/train.parquet")
    (hub / "README.md").write_text(
        "---\nconfigs:\n- config_name: de-en\n  data_files:\n  - split: train\n    path: de-en/*.parquet\n---\n"
    )
    monkeypatch.chdir(tmp_path)
    config = CorpusConfig(sources={"books": SourceConfig(dataset="hub/books")}, fetch=True)
    ensure_sources(config, ["de"], tmp_path / "data")
    assert list(read_pair_file(tmp_path / "data/parallel/books/en-de.tsv.gz", "de")) == PAIRS


# ── the command ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_fetches_what_is_named_or_configured(
    catalog: dict[str, CatalogEntry], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("{name: x, languages: [de], stages: [], corpus: {sources: {moses: {}, made: {}}}}")
    data = tmp_path / "data"

    def there() -> list[str]:
        return [name for name in ("moses", "tmx", "ted") if languages_there(name, catalog[name], data) == ["de"]]

    assert main(["fetch", "--config", str(config), "--data", str(data)]) == 0
    assert there() == ["moses"]
    assert main(["fetch", "ted", "--config", str(config), "--data", str(data)]) == 0
    assert there() == ["moses", "ted"]  # in the configuration's languages
    assert main(["fetch", "tmx", "--languages", "de", "--data", str(data)]) == 0
    assert there() == ["moses", "tmx", "ted"]
    assert main(["fetch", "made", "--languages", "de", "--data", str(data)]) == 2
    assert main(["fetch", "moses", "--data", str(data)]) == 2
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")] == [
        "error: made cannot be downloaded: it was made from https://example.org (docs/guide/corpora.md)",
        "error: say what to fetch: names and --languages de,fr, or --config CONFIG",
    ]


def test_list_shows_each_source_with_licence_and_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "parallel/diabla").mkdir(parents=True)
    (tmp_path / "parallel/diabla/en-fr.tsv").write_text("Hi\tSalut\n")
    assert main(["list", "--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(load_catalog())
    assert next(line for line in lines if line.startswith("diabla")).split() == [
        "diabla", "CC", "BY-SA", "4.0", "-", "fr", "DiaBLa",
    ]  # fmt: skip


# ── the real catalogue ────────────────────────────────────────────────────────────────────────────────────────────


def test_catalogue_entries_have_licence_home_and_addresses() -> None:
    for name, entry in load_catalog().items():
        assert entry.licence
        assert entry.url.startswith("https://")
        assert (entry.files is None) == (not entry.languages), name
        if entry.files is None:
            continue
        assert entry.files.codes.keys() <= set(entry.languages), name
        assert bool(entry.files.folder) == (entry.kind == "evaluation"), name
        for language in entry.languages:
            assert all(url.startswith("https://") and "{" not in url for url in entry.files.addresses(language))
    files = load_catalog()["europarl"].files
    assert files.addresses("de") == ["https://object.pouta.csc.fi/OPUS-Europarl/v8/moses/de-en.txt.zip"]
    assert files.addresses("fr") == ["https://object.pouta.csc.fi/OPUS-Europarl/v8/moses/en-fr.txt.zip"]
