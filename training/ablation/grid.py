"""Turns a specification into cells: the base configuration with each cell's changes, validated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from training.ablation.spec import AblationSpec
from training.config.parsing import build, read_yaml
from training.config.run import RunConfig
from training.errors import ConfigError

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
    """All cells of the spec at `path`: runs, then the grid, then products, then repeats with other seeds.

    Raises: ConfigError: a change names an unknown setting or an invalid value; a name has no cell, or two.
    """
    base = read_yaml(path.parent / spec.base)
    if not isinstance(base, dict):
        raise ConfigError(f"{path.parent / spec.base} must be a mapping of settings, not {type(base).__name__}")
    changes: dict[str, Settings] = {**spec.runs}
    for crossed in (combinations(spec.grid), *map(crossings, spec.products)):
        for name, combination in crossed.items():
            if name in changes:
                raise ConfigError(f"{path.name}: there are two cells {name!r}")
            changes[name] = combination
    _check_names(spec, set(changes), where=path.name)
    cells = [Cell(name, _config(base, change, where=f"{path.name}: {name}")) for name, change in changes.items()]
    for name, seeds in spec.seeds.items():
        for seed in seeds:
            if seed == base.get("seed", RunConfig.model_fields["seed"].default):
                raise ConfigError(f"{path.name}: seeds.{name} has {seed}, the seed of {name!r} itself")
            change = merge(nest(changes[name]), nest(dict.fromkeys(spec.seed_keys, seed)))
            cells.append(Cell(name, _config(base, change, where=f"{path.name}: {name}, seed {seed}"), seed))
    _check_folders(cells, where=path.name)
    return cells


def combinations(grid: dict[str, list[object]]) -> dict[str, Settings]:
    """The product of the grid's values, named like `unit_layers=3, bottleneck_size=128`."""
    if not grid:
        return {}
    chosen = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return {", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in each.items()): each for each in chosen}


def crossings(axes: dict[str, Settings]) -> dict[str, Settings]:
    """The product of the axes: one set of changes from each, named by its labels; empty labels are omitted."""
    crossed: dict[str, Settings] = {}
    for chosen in product(*(axis.items() for axis in axes.values())):
        changes: Settings = {}
        for _, own in chosen:
            changes = merge(changes, nest(own))
        crossed[", ".join(label for label, _ in chosen if label)] = changes
    return crossed


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


def _config(base: Settings, changes: Settings, *, where: str) -> RunConfig:
    """The configuration of a cell: the base with its changes."""
    return build(RunConfig, merge(base, nest(changes)), where=where)


def _check_names(spec: AblationSpec, cells: set[str], *, where: str) -> None:
    named = {
        "seeds": list(spec.seeds),
        **{f"tables.{title}": names for title, names in spec.tables.items()},
        **{f"figures.{figure}": names for figure, names in spec.figures.model_dump().items()},
        **{
            f"findings.{claim}": [name for names in finding.order for name in names]
            for claim, finding in spec.findings.items()
        },
    }
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
