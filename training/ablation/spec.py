"""The specification of an ablation, what it trains and reports: frozen dataclasses read from YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from training.config.parsing import build, read_yaml
from training.errors import ConfigError

Metric = Literal["mono", "cross", "tatoeba"]  # STS within a language, STS against English, retrieval P@1


@dataclass(frozen=True)
class Finding:
    """A claim about scores: they rise along each list of `order`, which names cells, worst first."""

    order: list[list[str]]
    metrics: list[Metric] = field(default_factory=lambda: ["cross"])


@dataclass(frozen=True)
class Figures:
    """The cells in each figure; an empty figure is omitted."""

    layers: list[str] = field(default_factory=list)  # score against layers of single-stage students: Fig. 1
    depth: list[str] = field(default_factory=list)  # score against stored layers, with recurrence and without
    objectives: list[str] = field(default_factory=list)  # dev score during stage 4, by language pair: Fig. 3
    losses: list[str] = field(default_factory=list)  # losses of every stage during training
    map: list[str] = field(default_factory=list)  # sentences by language before the first stage and after the last


@dataclass(frozen=True)
class AblationSpec:
    """Cells come from `runs`, the product of the `grid`, and `products`; each is a set of changes to the base.

    A product has labelled axes: a cell takes one set of changes from each, and is named by the non-empty labels:
    `student XLM-R, B=128, M=3`.

    A change is nested (`contrastive: {objective: none}`) or dotted (`contrastive.objective: none`). A cell named like a
    row of the paper (training/ablation/paper.py) is compared with it in every table.
    """

    base: str  # a run's configuration, relative to this file
    title: str = "Ablation"
    runs: dict[str, dict[str, object]] = field(default_factory=dict)
    grid: dict[str, list[object]] = field(default_factory=dict)  # dotted key -> its values
    products: list[dict[str, dict[str, dict[str, object]]]] = field(default_factory=list)  # axis -> label -> changes
    seeds: dict[str, list[int]] = field(default_factory=dict)  # cell -> more seeds to train it with, to measure noise
    seed_keys: list[str] = field(default_factory=lambda: ["seed"])  # the keys that a seed sets
    tables: dict[str, list[str]] = field(default_factory=dict)  # title -> cells; empty: one table of all cells
    figures: Figures = Figures()
    findings: dict[str, Finding] = field(default_factory=dict)  # claim -> the order of scores it predicts
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
