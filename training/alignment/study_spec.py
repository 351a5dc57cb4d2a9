"""What a study of `crosslet align` measures, as its file says it. Knows names and paths; measures nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from training.alignment.trainer import Settings
from training.config.parsing import ConfigModel, build, read_yaml
from training.errors import ConfigError

TableName = Literal[
    "head", "settings", "structures", "distances", "layers", "negatives", "closed form", "sizes", "documents", "others"
]


class Files(ConfigModel):
    """Files of pairs, relative to --data, of these two languages."""

    train: str
    test: str
    languages: list[str]


class StudySpec(ConfigModel):
    """What a study measures.

    margins: of the distances other than the Euclidean one, which the paper does not print.  sizes: pairs to train on.
    documents: a file of paragraphs; None: sentences of the test are joined to some of 30 to 50 words.
    others: more language pairs, by the name of their table.
    """

    title: str
    model: str
    pairs: Files
    tables: list[TableName]
    seeds: list[int] = Field(default=[0])
    epochs: int = Settings.epochs
    margins: dict[str, float] = Field(default={"manhattan": 16.0, "cosine": 0.5})
    sizes: list[int] = Field(default=[250, 500, 750, 1000, 1250, 1500, 2000])
    documents: str | None = None
    others: dict[str, Files] = Field(default={})


def read_spec(path: Path) -> StudySpec:
    """Raises: ConfigError: a key is unknown or a value impossible."""
    spec = build(StudySpec, read_yaml(path), where=str(path))
    for name, files in {"pairs": spec.pairs, **spec.others}.items():
        if len(files.languages) != 2:
            raise ConfigError(f"{path}: {name}: languages are {files.languages}; a pair has two")
    if not spec.seeds or not spec.tables:
        raise ConfigError(f"{path}: a study has at least one of tables and of seeds")
    return spec
