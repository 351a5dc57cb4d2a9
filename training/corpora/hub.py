"""Reads parallel text from Hugging Face `datasets`: a folder, or a name on the hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from training.corpora.tsv import Pair
from training.errors import CorpusError

ROWS = 1_000  # read at once


def read_dataset_pairs(name: str | Path, language: str) -> Iterator[Pair]:
    """Pairs of the `train` split, or of the only one: a folder that `save_to_disk` left or that holds data files
    (Parquet, CSV, JSON lines), or a hub name, of which the configuration `en-<language>` or the other way is taken.

    Columns: `translation`, holding {en: ..., <language>: ...}; or `en` and `<language>`; or two, English first.

    Raises: CorpusError: it cannot be loaded, or has no such split or columns.
    """
    try:
        rows = _load(name, language)
        for batch in rows.iter(batch_size=ROWS):
            yield from _pairs(batch, language, name)
    except CorpusError:
        raise
    except Exception as exc:  # `datasets` raises whatever its many readers do
        raise CorpusError(f"{name} cannot be read as a dataset: {' '.join(str(exc).split())[:300]}") from exc


def _load(name: str | Path, language: str) -> Any:
    """The rows, none of them in memory."""
    import datasets  # takes seconds, and most runs need none of it

    if not isinstance(name, Path):
        known = datasets.get_dataset_config_names(name)
        pairs = (f"en-{language}", f"{language}-en", f"en_{language}", f"{language}_en")
        config = next((pair for pair in pairs if pair in known), None)
        if config is None:
            raise CorpusError(f"{name} has no configuration en-{language}; it has {', '.join(known)[:300]}")
        found = datasets.load_dataset(name, config, streaming=True)
    elif any((name / marker).exists() for marker in ("dataset_dict.json", "state.json")):
        found = datasets.load_from_disk(str(name))
    elif any(name.rglob("*.csv")):
        found = datasets.load_dataset(str(name), streaming=True, keep_default_na=False)  # NA and null are words
    else:
        found = datasets.load_dataset(str(name), streaming=True)
    if not isinstance(found, Mapping):
        return found
    if "train" not in found and len(found) != 1:
        raise CorpusError(f"{name} has the splits {', '.join(found)}; one must be named train")
    return found["train"] if "train" in found else next(iter(found.values()))


def _pairs(batch: Mapping[str, list[Any]], language: str, name: str | Path) -> Iterable[Pair]:
    """The pairs of some rows; an absent side is an empty one."""
    if "translation" in batch:
        if not all(isinstance(row, Mapping) for row in batch["translation"]):
            raise CorpusError(f"{name} has a translation that is not an object of texts by language")
        batch = {side: [row.get(side) for row in batch["translation"]] for side in ("en", language)}
    if "en" in batch and language in batch:
        columns = batch["en"], batch[language]
    elif len(batch) == 2:
        left, right = batch.values()
        columns = left, right
    else:
        raise CorpusError(f"{name} has the columns {', '.join(batch)}; it needs translation, en and {language}, or two")
    if not all(side is None or isinstance(side, str) for column in columns for side in column):
        raise CorpusError(f"{name} has a row whose two sides are not texts; name the text columns en and {language}")
    return ((english or "", other or "") for english, other in zip(*columns, strict=True))
