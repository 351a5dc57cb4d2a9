"""Trains the cells of the re-ranking study; equal steps (the small body, XPI) are trained once. Run again to resume."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from training.config.parsing import ConfigModel, build
from training.config.run import Seed
from training.errors import ConfigError
from training.evaluation.encoders import LoadModel, load_model
from training.pipeline.runner import DONE, fingerprints, run_steps, share_steps
from training.pipeline.summary import pairs_seen
from training.reranking.config import MixBy, RerankConfig, Strategy
from training.reranking.data import RerankData
from training.reranking.job import RerankRun, read_scores

logger = logging.getLogger(__name__)
KIND = "reranker-study"
STRATEGIES: tuple[Strategy, ...] = ("merged", "cascade", "mixed")
OTHER_MIX: dict[MixBy, MixBy] = {"pair": "question", "question": "pair"}
BaseName = Annotated[str, Field(pattern=r"^[\w.-]+$")]  # part of a folder's name
StudyScores = dict[str, dict[str, dict[str, dict[str, float]]]]  # set -> scorer -> metric -> couple -> score x 100


class StudySpec(ConfigModel):
    """A study. `run`: the configuration with XPI; `strategy`, `xpi`, `mix_by` and `base` are varied."""

    kind: Literal["reranker-study"]
    title: str
    run: RerankConfig
    margin: float = 1.0  # points of MRR under which a difference is noise
    seeds: list[Seed] | None = None  # each trains all cells; None: run.seed alone
    bases: dict[BaseName, str] = Field(default={})  # such as mBERT: its folder; trains mixed, and XPI + mixed, on it


@dataclass(frozen=True)
class StudyCell:
    """One training. `label`: its name, and its seed where there are several. `folders`: of its steps, by name."""

    name: str  # as the paper's rows: "XPI + mixed"
    label: str
    run: RerankRun
    data_fingerprint: str
    folders: dict[str, Path]

    @property
    def is_done(self) -> bool:
        """Whether it is trained and measured."""
        return (self.folders["final"] / DONE).exists()

    def scores(self) -> StudyScores | None:
        """What it scores; None: not trained yet."""
        return read_scores(self.folders["scores"]) if self.is_done else None

    def pairs(self) -> int:
        """Pairs of question and passage that a finished cell was trained on."""
        return sum(pairs_seen(self.folders[step]) for step in self.run.xpr_steps)

    def records(self) -> dict[Path, dict[str, Any]]:
        """Of each finished step its commit, hardware and seconds."""
        files = [folder / DONE for folder in self.folders.values()]
        return {file: json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()}


def is_study(raw: Any) -> bool:
    """Whether a specification's plain values are a re-ranking study's."""
    return isinstance(raw, dict) and raw.get("kind") == KIND


def study_spec(raw: Any, *, where: str) -> StudySpec:
    """A specification from plain values.

    Raises: ConfigError: names the key, the value and what it must be.
    """
    spec = build(StudySpec, raw, where=where)
    if not seeds_of(spec) or len(set(seeds_of(spec))) < len(seeds_of(spec)):
        raise ConfigError(f"{where}: seeds is {spec.seeds}; it must be different seeds, at least one")
    if spec.run.xpi is None:
        raise ConfigError(f"{where}: run has no xpi; the study compares runs with it and without")
    if spec.run.xpr.epochs is None:
        raise ConfigError(f"{where}: run.xpr must have epochs: by pairs, a cascade would see as many in each language")
    return spec


def seeds_of(spec: StudySpec) -> list[int]:
    """The seeds that every cell is trained with."""
    return [spec.run.seed] if spec.seeds is None else spec.seeds


def study_cells(spec: StudySpec, data: Path, out: Path, load_model: LoadModel = load_model) -> list[StudyCell]:
    """The cells of each seed in turn. Only the first seed measures the bi-encoder: it has no seed."""
    seeds, cells = seeds_of(spec), []
    known: dict[bool, str] = {}  # with XPI or without, which reads more text -> fingerprint
    for seed in seeds:
        measure = spec.run.measure if seed == seeds[0] else spec.run.measure.model_copy(update={"bi_encoder": None})
        for name, varied in _configs(spec).items():
            config = varied.model_copy(update={"seed": seed, "measure": measure})
            label = name if len(seeds) == 1 else f"{name}, seed {seed}"
            run = RerankRun(config, RerankData(config, data, load_model), out / "cells" / _folder(label))
            if (data_fingerprint := known.get(config.xpi is None)) is None:
                data_fingerprint = known[config.xpi is None] = run.data.fingerprint()
            identities = fingerprints(run.steps(), data_fingerprint=data_fingerprint)
            folders = {step: out / "steps" / f"{step}-{identity}" for step, identity in identities.items()}
            cells.append(StudyCell(name, label, run, data_fingerprint, folders))
    return cells


def _configs(spec: StudySpec) -> dict[str, RerankConfig]:
    """Cell -> its configuration, in the order of the paper's table; then the other `mix_by` and the other bases."""
    configs = {
        strategy if xpi is None else f"XPI + {strategy}": spec.run.model_copy(update={"strategy": strategy, "xpi": xpi})
        for xpi, strategy in product((None, spec.run.xpi), STRATEGIES)
    }
    configs[f"mixed by {OTHER_MIX[spec.run.mix_by]}"] = configs["mixed"].model_copy(
        update={"mix_by": OTHER_MIX[spec.run.mix_by]}
    )
    for base, folder in spec.bases.items():
        configs |= {
            f"{name}, {base}": configs[name].model_copy(update={"base": folder}) for name in ("mixed", "XPI + mixed")
        }
    return configs


def mixes(spec: StudySpec) -> tuple[str, str]:
    """The cells that are mixed by pair and by question."""
    own, other = "mixed", f"mixed by {OTHER_MIX[spec.run.mix_by]}"
    return (own, other) if spec.run.mix_by == "pair" else (other, own)


def _folder(label: str) -> str:
    """ "XPI + mixed, seed 2" is in xpi-mixed-seed-2."""
    return label.lower().replace(" + ", "-").replace(",", "").replace(" ", "-")


def train_cells(cells: list[StudyCell], out: Path) -> None:
    """Train and measure what is not done yet."""
    for number, cell in enumerate(cells, start=1):
        logger.info("cell %d of %d: %s", number, len(cells), cell.label)
        run, steps = cell.run, cell.run.steps()
        share_steps(steps, run.out, out / "steps", data_fingerprint=cell.data_fingerprint)
        run_steps(steps, run.config, run.out, data_fingerprint=cell.data_fingerprint)


def describe_cells(cells: list[StudyCell]) -> list[str]:
    """Each cell with its steps, and which of them it shares with one above."""
    known: set[Path] = set()
    lines = []
    for cell in cells:
        steps = [name if folder not in known else f"{name} (shared)" for name, folder in cell.folders.items()]
        known |= set(cell.folders.values())
        lines.append(f"{cell.label}: {'done' if cell.is_done else ', '.join(steps)}")
    return lines
