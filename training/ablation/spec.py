"""The specification of an ablation, what it trains and reports: frozen pydantic models read from YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from training.config.parsing import ConfigModel, build, read_yaml
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
    map: list[str] = Field(default=[])  # sentences by language before the first stage and after the last


class AblationSpec(ConfigModel):
    """Cells come from `runs`, the product of the `grid`, and `products`; each is a set of changes to the base.

    A product has labelled axes: a cell takes one set of changes from each, and is named by the non-empty labels:
    `student XLM-R, B=128, M=3`.

    A change is nested (`contrastive: {objective: none}`) or dotted (`contrastive.objective: none`). A cell named like a
    row of the paper (training/ablation/paper.py) is compared with it in every table.
    """

    base: str  # a run's configuration, relative to this file
    title: str = "Ablation"
    runs: dict[str, dict[str, Any]] = Field(default={})
    grid: dict[str, list[Any]] = Field(default={})  # dotted key -> its values
    products: list[dict[str, dict[str, dict[str, Any]]]] = Field(default=[])  # axis -> label -> changes
    seeds: dict[str, list[int]] = Field(default={})  # cell -> more seeds to train it with, to measure noise
    seed_keys: list[str] = Field(default=["seed"])  # the keys that a seed sets
    tables: dict[str, list[str]] = Field(default={})  # title -> cells; empty: one table of all cells
    figures: Figures = Figures()
    findings: dict[str, Finding] = Field(default={})  # claim -> the order of scores it predicts
    margin: float = 0.5  # points: the smallest margin of noise


def load_spec(path: Path) -> AblationSpec:
    """Read an ablation's YAML.

    Raises: ConfigError: the file is missing or not YAML, a key is unknown or missing, a value has the wrong type.
    """
    spec = build(AblationSpec, read_yaml(path), where=path.name)
    if not spec.runs and not spec.grid and not spec.products:
        raise ConfigError(f"{path.name} defines no cell: add runs, a grid or products")
    empty = [key for key, values in spec.grid.items() if not values]
    if empty:
        raise ConfigError(f"{path.name}: grid.{empty[0]} has no value")
    for claim, finding in spec.findings.items():
        if not finding.order or not finding.metrics or any(len(names) < 2 for names in finding.order):
            raise ConfigError(
                f"{path.name}: findings.{claim} compares nothing: it needs a metric, and lists of at least two cells"
            )
    if spec.margin < 0:
        raise ConfigError(f"{path.name}: margin is {spec.margin}; it must be at least 0")
    return spec
