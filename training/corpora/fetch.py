"""Downloads corpora of the catalogue into a data folder and converts them; keeps what is there.

DIR/downloads/<source>/...               downloads; may be deleted once converted
DIR/parallel/<source>/en-<lang>.tsv.gz   parallel text
DIR/eval/<folder>/...                    evaluation sets, in their own layout
"""

from __future__ import annotations

import fcntl
import gzip
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from training.config.run import CorpusConfig
from training.corpora.archives import unpack
from training.corpora.catalog import CatalogEntry, SourceFiles, load_catalog
from training.corpora.download import Patience, download
from training.corpora.hub import read_dataset_pairs
from training.corpora.readers import find_pair_file
from training.corpora.text_pairs import (
    BadLine,
    BadLines,
    Pair,
    read_moses_pairs,
    read_multiway_pairs,
    read_zipped_tsv_pairs,
)
from training.corpora.tmx import read_tmx_pairs
from training.errors import BadLineError, CorpusError, FetchError
from training.system.files import LOCK, files_under, partial, wait_for, write_atomically

PATIENCE = Patience()
UNFINISHED = ".unfinished"  # in DIR/eval, while its sets are fetched
logger = logging.getLogger(__name__)
READERS: dict[str, Callable[[Path, str, BadLines], Iterator[Pair]]] = {
    "moses": read_moses_pairs,
    "multiway": read_multiway_pairs,
    "tmx": lambda path, code, bad: read_tmx_pairs(path, code.partition("-")[0], bad),  # any region
    "tsv_zip": read_zipped_tsv_pairs,
}


def ensure_sources(config: CorpusConfig, languages: list[str], data: Path) -> None:
    """If the configuration says `fetch`, download what its sources lack in these languages, and the catalogue's
    evaluation sets if there are none. Writes nothing when nothing is missing: the folder may be read-only.

    Raises: FetchError, CorpusError: a download or its conversion failed, or a source is an evaluation set.
    """
    if not config.fetch:
        return
    catalog = load_catalog()
    lock = data / "downloads" / LOCK
    if lock.exists():
        with lock.open() as running_fetch:  # evaluation sets arrive file by file: wait until it ends
            fcntl.flock(running_fetch, fcntl.LOCK_SH)
    if not _lacking(config, catalog, languages, data) and _has_evaluation(data):
        return
    with wait_for(data / "downloads"):
        for name, lacking in _lacking(config, catalog, languages, data).items():  # another fetch may have run
            dataset = config.sources[name].dataset
            if dataset is not None:
                for language in lacking:
                    bad = BadLines(config.on_bad_line)
                    _convert(read_dataset_pairs(dataset, language, bad), bad, data, name, language)
            elif (files := catalog[name].files) is not None:
                _fetch_parallel(name, files, lacking, data, config.on_bad_line)
        _fetch_all_evaluation(catalog, languages, data)


def _lacking(
    config: CorpusConfig, catalog: Mapping[str, CatalogEntry], languages: list[str], data: Path
) -> dict[str, list[str]]:
    """Return the languages that each source lacks here and that can be downloaded.

    Raises: FetchError: a source is an evaluation set.
    """
    lacking: dict[str, list[str]] = {}
    for name, settings in config.sources.items():
        source = catalog.get(name)
        if source is not None and source.kind == "evaluation":
            raise FetchError(f"{name} is an evaluation set and cannot be trained on")
        if settings.dataset is not None:
            lacking[name] = _missing(name, languages, data)
        elif source is not None and source.files is not None:
            lacking[name] = _missing(name, _offered(source, languages), data)
    return {name: missing for name, missing in lacking.items() if missing}


def fetch_source(name: str, languages: list[str], data: Path, *, on_bad_line: BadLine = "stop") -> None:
    """Download a source of the catalogue in these languages, except those already there.

    Args:   on_bad_line: whether a line that is not a pair ends the fetch or is skipped.
    Raises: FetchError: the source is not in the catalogue, cannot be downloaded, or lacks one of the languages.
    """
    source = load_catalog().get(name)
    if source is None:
        raise FetchError(f"{name} is not in the catalogue; `crosslet corpora list` shows all")
    if source.files is None:
        raise FetchError(f"{name} cannot be downloaded: it was made from {source.url} (docs/guide/corpora.md)")
    absent = [language for language in languages if language not in source.languages]
    if absent:
        raise FetchError(f"{name} has no {', '.join(absent)}; it has {', '.join(source.languages)}")
    with wait_for(data / "downloads"):
        if source.kind == "evaluation":
            _fetch_evaluation(name, source.files, languages, data)
        else:
            _fetch_parallel(name, source.files, _missing(name, languages, data), data, on_bad_line)


def languages_there(name: str, source: CatalogEntry, data: Path) -> list[str]:
    """Return the languages of a source that a data folder has."""
    if source.kind == "parallel":
        folder = data / "parallel" / name
        names = {path.name.split(".")[0] for path in folder.iterdir()} if folder.is_dir() else set()
        sides = {side for pair in names for side in pair.split("-")} - {"en"}
        return sorted(side for side in sides if find_pair_file(data / "parallel", name, side))
    if source.files is None:
        return []
    return [language for language in source.languages if _evaluation_is_there(source.files, language, data)]


def _fetch_parallel(name: str, files: SourceFiles, languages: list[str], data: Path, on_bad_line: BadLine) -> None:
    for language in languages:
        (url,) = files.addresses(language)
        archive = data / "downloads" / name / _file_name(url)
        _download(url, archive, files, language)
        bad = BadLines(on_bad_line)
        with _removed_if_unusable(archive, url):
            pairs = READERS[files.format](archive, files.code(language), bad)
            _convert(pairs, bad, data, name, language)


def _fetch_evaluation(name: str, files: SourceFiles, languages: list[str], data: Path) -> None:
    folder = data / "eval" / files.folder
    for language in languages:
        if _evaluation_is_there(files, language, data):
            continue
        for url in files.addresses(language):
            target = (folder if files.format == "plain" else data / "downloads" / name) / _file_name(url)
            _download(url, target, files, language)
            if files.format == "unpacked":
                with _removed_if_unusable(target, url):
                    unpack(target, folder)


def _fetch_all_evaluation(catalog: Mapping[str, CatalogEntry], languages: list[str], data: Path) -> None:
    """Download every evaluation set of the catalogue if there are none, or resume such a fetch.

    A marker file stays until all are there: incomplete sets would leave leaks undetected.
    """
    if _has_evaluation(data):
        return
    unfinished = data / "eval" / UNFINISHED
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    unfinished.touch()
    for name, source in catalog.items():
        if source.kind == "evaluation" and source.files is not None:
            _fetch_evaluation(name, source.files, _offered(source, languages), data)
    unfinished.unlink()


def _has_evaluation(data: Path) -> bool:
    return bool(files_under(data / "eval")) and not (data / "eval" / UNFINISHED).exists()


def _evaluation_is_there(files: SourceFiles, language: str, data: Path) -> bool:
    folder = data / "eval" / files.folder
    if files.format == "unpacked":
        return folder.is_dir()
    return all((folder / _file_name(url)).exists() for url in files.addresses(language))


def _missing(name: str, languages: list[str], data: Path) -> list[str]:
    return [language for language in languages if find_pair_file(data / "parallel", name, language) is None]


def _offered(source: CatalogEntry, languages: list[str]) -> list[str]:
    return [language for language in languages if language in source.languages]


def _file_name(url: str) -> str:
    return url.rpartition("/")[2]


def _download(url: str, path: Path, files: SourceFiles, language: str) -> None:
    if not path.exists():
        download(url, path, sha256=files.sha256.get(language, files.sha256.get("*")), patience=PATIENCE)


@contextmanager
def _removed_if_unusable(path: Path, url: str) -> Iterator[None]:
    try:
        yield
    except BadLineError as exc:  # such lines can be skipped without another download
        raise FetchError(f"{url} was downloaded and cannot be read: {exc}") from exc
    except CorpusError as exc:
        path.unlink()
        raise FetchError(f"{url} gave nothing that can be used: {exc}; the download was removed") from exc


def _convert(pairs: Iterable[Pair], bad: BadLines, data: Path, name: str, language: str) -> None:
    """Write pairs as `english<TAB>other` lines, deterministically; pairs with an empty side are skipped.

    Raises: CorpusError: no pair is left.
    """
    path = data / "parallel" / name / f"en-{language}.tsv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    collapsed = ((" ".join(english.split()), " ".join(other.split())) for english, other in pairs)
    lines = (f"{english}\t{other}\n".encode() for english, other in collapsed if english and other)
    try:
        first = next(lines, None)
        if first is None:
            raise CorpusError(f"{name} has no pair in {language}")

        def write(temporary: Path) -> None:
            with temporary.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                packed.writelines(chain([first], lines))

        write_atomically(path, write)
    except BaseException:
        partial(path).unlink(missing_ok=True)
        raise
    if left_out := bad.dropped.total():
        logger.warning("%s: skipped %d lines in %s that are not pairs", name, left_out, language)
    logger.info("%s: %s is ready", name, path)
