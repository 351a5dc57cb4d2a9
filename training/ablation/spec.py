"""What an ablation trains and reports: its specification, read from YAML, and the cells that follow from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from training.config.parsing import ConfigModel, build, read_yaml
from training.config.run import RunConfig, Terms
from training.corpora.catalog import within_terms
from training.errors import ConfigError

Metric = Literal["mono", "cross", "tatoeba"]  # STS within a language, STS against English, retrieval P@1


class Finding(ConfigModel):
    """A claim about scores: they rise along each list of `order`, which names cells, worst first."""

    order: list[list[str]]
    metrics: list[Metric] = Field(default=["cross"])


class Figures(ConfigModel):
    """The cells in each figure; an empty figure is omitted."""

    layers: list[str] = Field(default=[])  # score against layers of single-stage students: Fig. 1
    depth: list[str] = Field(default=[])  # score against stored layers, with recurrence and without
    objectives: list[str] = Field(default=[])  # dev score during stage 4, by language pair: Fig. 3
    losses: list[str] = Field(default=[])  # losses of every stage during training


class AblationSpec(ConfigModel):
    """Cells come from `runs` and the product of the `grid`; each is a set of changes to the base.

    A change is nested (`contrastive: {objective: none}`) or dotted (`contrastive.objective: none`). A cell named like a
    row of the paper (training/ablation/paper.py) is compared with it in every table.
    """

    base: str  # a run's configuration, relative to this file
    title: str = "Ablation"
    runs: dict[str, dict[str, Any]] = Field(default={})
    grid: dict[str, list[Any]] = Field(default={})  # dotted key -> its values
    terms: dict[str, list[Terms]] = Field(default={})  # cell -> the licences of its text; text under others is left out
    seeds: dict[str, list[int]] = Field(default={})  # cell -> more seeds to train it with, to measure noise
    seed_keys: list[str] = Field(default=["seed"])  # the keys that a seed sets
    tables: dict[str, list[str]] = Field(default={})  # title -> cells; empty: one table of all cells
    figures: Figures = Figures()
    findings: dict[str, Finding] = Field(default={})  # claim -> the order of scores it predicts
    margin: float = Field(default=0.5, ge=0)  # points: the smallest margin of noise


def load_spec(path: Path) -> AblationSpec:
    """Read an ablation's YAML.

    Raises: ConfigError: the file is missing or not YAML, a key is unknown or missing, a value has the wrong type.
    """
    spec = build(AblationSpec, read_yaml(path), where=path.name)
    if not spec.runs and not spec.grid:
        raise ConfigError(f"{path.name} defines no cell: add runs or a grid")
    for key, values in spec.grid.items():
        if not values:
            raise ConfigError(f"{path.name}: grid.{key} has no value")
    for claim, finding in spec.findings.items():
        if not finding.order or not finding.metrics or any(len(names) < 2 for names in finding.order):
            raise ConfigError(
                f"{path.name}: findings.{claim} compares nothing: it needs a metric, and lists of at least two cells"
            )
    return spec


Settings = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One variant to train. `seed`: the seed of a repeat of the variant `name`; None: the variant itself."""

    name: str
    config: RunConfig
    seed: int | None = None

    @property
    def folder(self) -> str:
        """The name of its folder: readable, without characters that file systems forbid."""
        name = self.name if self.seed is None else f"{self.name} seed {self.seed}"
        return re.sub(r"[^\w.=+-]+", "-", name).strip("-.")


def read_cells(spec: AblationSpec, path: Path) -> list[Cell]:
    """All cells of the spec at `path`: runs, then the grid, then repeats with other seeds.

    Raises: ConfigError: a change names an unknown setting or an invalid value; a name has no cell, or two.
    """
    base = read_yaml(path.parent / spec.base)
    if not isinstance(base, dict):
        raise ConfigError(f"{path.parent / spec.base} must be a mapping of settings, not {type(base).__name__}")
    changes: dict[str, Settings] = {**spec.runs}
    for chosen in product(*spec.grid.values()) if spec.grid else []:
        combination = dict(zip(spec.grid, chosen, strict=True))
        name = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in combination.items())
        if name in changes:
            raise ConfigError(f"{path.name}: there are two cells {name!r}")
        changes[name] = combination
    _check_names(spec, set(changes), where=path.name)

    def config(name: str, change: Settings, where: str) -> RunConfig:
        whole = build(RunConfig, merge(base, nest(change)), where=f"{path.name}: {where}")
        return within_terms(whole, spec.terms[name]) if name in spec.terms else whole

    cells = [Cell(name, config(name, change, name)) for name, change in changes.items()]
    for name, seeds in spec.seeds.items():
        for seed in seeds:
            if seed == base.get("seed", RunConfig.model_fields["seed"].default):
                raise ConfigError(f"{path.name}: seeds.{name} has {seed}, the seed of {name!r} itself")
            change = merge(nest(changes[name]), nest(dict.fromkeys(spec.seed_keys, seed)))
            cells.append(Cell(name, config(name, change, f"{name}, seed {seed}"), seed))
    _check_folders(cells, where=path.name)
    return cells


def nest(changes: Settings) -> Settings:
    """Turn dotted keys into nested mappings: {"a.b": 1} -> {"a": {"b": 1}}.

    Raises: ConfigError: a key is not a string, e.g. YAML's bare `no`.
    """
    nested: Settings = {}
    for key, value in changes.items():
        if not isinstance(key, str):
            raise ConfigError(f"the key {key!r} is not a string: put it in quotes")
        inner = nest(value) if isinstance(value, dict) else value
        for part in reversed(key.split(".")):
            inner = {part: inner}
        nested = merge(nested, inner)
    return nested


def merge(base: Settings, changes: Settings) -> Settings:
    """Apply `changes` to `base`: mappings are merged, other values replaced."""
    merged = {**base}
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def _check_names(spec: AblationSpec, cells: set[str], *, where: str) -> None:
    named = {"seeds": list(spec.seeds), "terms": list(spec.terms)}
    named |= {f"tables.{title}": names for title, names in spec.tables.items()}
    named |= {f"figures.{figure}": names for figure, names in spec.figures.model_dump().items()}
    named |= {f"findings.{claim}": list(chain(*finding.order)) for claim, finding in spec.findings.items()}
    for place, names in named.items():
        for name in names:
            if name not in cells:
                raise ConfigError(f"{where}: {place} names {name!r}; the cells are: {', '.join(sorted(cells))}")


def _check_folders(cells: list[Cell], *, where: str) -> None:
    seen: dict[str, Cell] = {}
    for cell in cells:
        other = seen.setdefault(cell.folder.casefold(), cell)  # some file systems ignore case
        if other is not cell:
            raise ConfigError(f"{where}: {other.name!r} and {cell.name!r} would share the folder {cell.folder!r}")
