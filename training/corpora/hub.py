"""Reads parallel text with Hugging Face `datasets`, from a folder or the hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from training.corpora.text_pairs import STOP, BadLines, Pair
from training.errors import CorpusError
from training.system.text_files import MARK, MARKED_UTF8

ROWS = 1_000  # read at once
SIDES = (("source", "target"), ("src", "tgt"), ("english", "non_english"), ("anchor", "positive"))  # English first


def read_dataset_pairs(name: str | Path, language: str, bad: BadLines = STOP) -> Iterator[Pair]:
    """Yield the pairs of the `train` split, or of the only split.

    Columns: `en` and `<language>`; or the first of `SIDES` that exists; or `translation`, holding {en: ...,
    <language>: ...}. Columns are never taken by position, which may hold ids. A missing side is empty.

    Args:
        name: a folder written by `save_to_disk`, a folder of Parquet, CSV or JSON lines, or a hub name, read in its
            configuration `en-<language>` or `<language>-en`.
        bad: receives rows in which a side is not text, or not UTF-8.
    Raises: CorpusError: it cannot be loaded, has no such split or columns, or `bad` stops at a row.
    """
    try:
        batches = _load(name, language).iter(batch_size=ROWS)
        rows = (row for batch in batches for row in _rows(batch, language, name))
        for number, row in enumerate(rows, start=1):
            if isinstance(row, str):
                bad.report(f"{name} row {number}", row)
            elif any(MARK in side for side in row):
                bad.report(f"{name} row {number}")
            else:
                yield row
    except CorpusError:
        raise
    except Exception as exc:  # `datasets` passes on any error of its readers
        raise CorpusError(f"{name} cannot be read as a dataset: {' '.join(str(exc).split())[:300]}") from exc


def _load(name: str | Path, language: str) -> Any:
    """Stream the rows."""
    import datasets  # slow to import, and rarely needed

    if not isinstance(name, Path):
        known = datasets.get_dataset_config_names(name)
        pairs = (f"en-{language}", f"{language}-en", f"en_{language}", f"{language}_en")
        config = next((pair for pair in pairs if pair in known), None)
        if config is None:
            raise CorpusError(f"{name} has no configuration en-{language}; it has {', '.join(known)[:300]}")
        return _stream(datasets.load_dataset_builder(name, config), name)
    if any((name / marker).exists() for marker in ("dataset_dict.json", "state.json")):
        stored = datasets.load_from_disk(str(name))
        return _training_split(stored, name) if isinstance(stored, Mapping) else stored
    return _stream(datasets.load_dataset_builder(str(name)), name)


def _stream(builder: Any, name: str | Path) -> Any:
    """Stream the rows of a builder, read as text: invalid UTF-8 becomes MARK, CSV cells stay strings.

    Raises: CorpusError: no split is named train, or a header is not UTF-8.
    """
    from datasets import Features, Value

    config = builder.config
    if getattr(config, "encoding", "another") in (None, "utf-8"):  # CSV, JSON
        config.encoding = MARKED_UTF8
    if hasattr(config, "keep_default_na"):  # CSV: `null`, `NA` and `nan` are words, 007 is text
        config.keep_default_na = False
        config.nrows = 1  # a first pass for the columns' names, to read all as text
        first_rows: list[dict[str, Any]] = list(_training_split(builder.as_streaming_dataset(), name))
        columns = list(first_rows[0]) if first_rows else []
        if any(MARK in column for column in columns):
            raise CorpusError(f"{name} has column names that are not UTF-8")
        config.nrows, config.features = None, Features({column: Value("string") for column in columns}) or None
    return _training_split(builder.as_streaming_dataset(), name)


def _training_split(splits: Mapping[str, Any], name: str | Path) -> Any:
    if "train" not in splits and len(splits) != 1:
        raise CorpusError(f"{name} has the splits {', '.join(splits)}; one must be named train")
    return splits["train"] if "train" in splits else next(iter(splits.values()))


def _rows(batch: Mapping[str, list[Any]], language: str, name: str | Path) -> Iterator[Pair | str]:
    """Yield the English and other side of each row, or what is wrong with it.

    Raises: CorpusError: there are no such columns, or the translations are in other languages.
    """
    names = next((both for both in (("en", language), *SIDES) if all(side in batch for side in both)), None)
    if names is not None:
        english, other = names
        yield from map(_pair, batch[english], batch[other])
    elif "translation" in batch:
        yield from (_translation(row, language, name) for row in batch["translation"])
    else:
        known = ", ".join(" and ".join(both) for both in SIDES)
        raise CorpusError(
            f"{name} has the columns {', '.join(batch)[:300]}; "
            f"it needs translation, en and {language}, or one of: {known}"
        )


def _translation(row: Any, language: str, name: str | Path) -> Pair | str:
    if not isinstance(row, Mapping):
        return f"has a {type(row).__name__} where texts by language should be"
    if not {"en", language} <= row.keys():
        raise CorpusError(f"{name} has translations in {', '.join(row)}; it needs en and {language}")
    return _pair(row["en"], row[language])


def _pair(english: Any, other: Any) -> Pair | str:
    for side in (english, other):
        if not isinstance(side, str | None):
            return f"has a {type(side).__name__} where a text should be"
    return english or "", other or ""
